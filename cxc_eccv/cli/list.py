"""``cxc-eccv list``: tasks, metrics, configs, sources of labels and files, or everything about one of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Annotated, NamedTuple, TypeAlias

import typer
from rich.table import Table
from rich.text import Text

from cxc_eccv.cli.shared_options import DATA
from cxc_eccv.errors import UnknownName
from cxc_eccv.terminal import say, shown_text

Facts: TypeAlias = Mapping[str, str | Sequence[str] | None]
"""Name of a fact to its text, or to several; empty or None where it is unknown."""

SECTION = re.compile(r"^\s*(?:Args|Returns|Raises|References|Examples?|See Also):", re.MULTILINE)

NOT_IN_EDITION = "not in edition"
"""The state of a file that other data have, and these do not."""


def list_all(
    name: Annotated[
        str | None, typer.Argument(help="tasks, metrics, configs, sources or files; or the name of one of them.")
    ] = None,
) -> None:
    """List tasks, metrics, configs, sources and files, or show one.

    Examples:
    ```sh
    cxc-eccv list
    cxc-eccv list sources
    cxc-eccv list eccv_caption
    ```

    A source of labels says which images and captions match. A raw file is `in mirror` (in --data-dir), `present` (in
    the cache), `to download`, or `user-provided`. On the sample, only its own files are listed.
    """
    from cxc_eccv.sources.download import find_catalog

    edition = find_catalog(DATA.get().data_dir).edition
    titles = {
        "tasks": "Tasks and the data they need (evaluate --tasks)",
        "metrics": "Metrics (evaluate --metrics; those of failures: explain)",
        "configs": "Dataset configs (build --configs, load_dataset)",
        "sources": "Sources of labels (evaluate --sources; --labels adds yours)",
        "files": f"Raw files of the {edition} data (--data-dir, or the cache)",
    }
    if name is None or name in titles:
        for group in titles if name is None else [name]:
            items = LISTERS[group]()
            present = {name: item for name, item in items.items() if item.state != NOT_IN_EDITION}
            _print_items(titles[group], present)
            if len(present) < len(items):
                say(
                    f"{len(items) - len(present)} other files are not part of the {edition} edition.\n"
                    "To see them, leave out --data-dir and CXC_ECCV_DATA.\n"
                )
        say("cxc-eccv list NAME shows everything about one of them.")
        return
    every = {group: items() for group, items in LISTERS.items()}
    names = dict.fromkeys(chain.from_iterable(every.values()))
    from cxc_eccv.registry import metric_variants, task

    for find in (task, lambda name: metric_variants(name)[0]):  # as they are printed
        with suppress(UnknownName):
            name = name if name in names else find(name).name
    if name not in names:
        raise UnknownName("name", name, names, listed="tasks, metrics, configs, sources or files")
    for group, items in every.items():
        if name in items:
            _print_facts(f"{group.removesuffix('s')} {name}", items[name].facts)


class Item(NamedTuple):
    """What stands in the line of an item, and all that is known of it."""

    summary: str
    facts: Facts
    state: str = ""


def _list_tasks() -> dict[str, Item]:
    from cxc_eccv.registry import group_tasks

    return {
        task.name: Item(
            task.description.partition(". ")[0],
            {
                "title": task.title,
                "description": task.description,
                "parts": task.part_names,
                "splits": task.splits,
                "metrics": task.metrics,
                "main metric": task.main_metric,
                "images and captions": task.collection.title,
                "dataset config": task.config,
                "groups of files": task.sources,
                "license": task.licence,
                "citation": task.citation,
            },
            task.collection.name,
        )
        for task in chain.from_iterable(group_tasks().values())
    }


def _list_metrics() -> dict[str, Item]:
    from cxc_eccv.metrics.families import find_family
    from cxc_eccv.registry import group_metrics, tasks

    items = {}
    for spec in chain.from_iterable(group_metrics().values()):
        description = SECTION.split(spec.description)[0]
        low, high = spec.bounds
        highest = "any number" if high is None else f"{high:g}"
        parameters = {name: name.upper() for name in spec.parameters}
        facts: Facts = {
            "title": spec.long_title.format(**parameters),
            "question": find_family(spec).question,
            "description": description,
            "of failures": "cxc-eccv explain computes it" if spec.explains else "",
            "parameters": [f"{name} = {', '.join(map(str, values))}" for name, values in spec.parameters.items()],
            "values": f"{low:g} to {highest}, shown as {spec.unit}",
            "better": "higher" if spec.higher_is_better else "lower",
            "tasks": [task.name for task in tasks().values() if spec.name in task.metrics],
            "citation": spec.citation,
        }
        items[spec.name] = Item(description, facts)
    return items


def _list_configs() -> dict[str, Item]:
    from cxc_eccv.builders.dataset_config import dataset_configs

    items = {}
    for name, config in dataset_configs().items():
        columns = {f"column {column}": meaning for column, meaning in config.fields.items()}
        facts: Facts = {
            "title": config.title,
            "description": config.description,
            "labels": config.collection,
            "splits": config.splits,
            **columns,
            "groups of files": config.sources,
            "known defects": " ".join(config.defects),
        }
        items[name] = Item(config.title, facts)
    return items


def _list_sources() -> dict[str, Item]:
    from cxc_eccv.judgments.evidence.source import official_sources
    from cxc_eccv.sources.download import find_catalog

    catalog = find_catalog(DATA.get().data_dir)
    items = {}
    for name, source in official_sources().items():
        files: list[str] = []
        for group in source.groups:
            files += [entry.name for entry in catalog.of_group(group)]
        facts: Facts = {
            "title": source.title,
            "description": source.description,
            "negatives": "it also says which pairs do not match" if source.no else "none: it lists only matches",
            "files": files,
            "license": [catalog.group(group).licence for group in source.groups],
        }
        items[name] = Item(source.description.partition(". ")[0], facts)
    return items


def _list_files() -> dict[str, Item]:
    from cxc_eccv.sources.download import find_catalog, state

    catalog = find_catalog(DATA.get().data_dir)
    items = {}
    for name, entry in catalog.entries.items():
        group = catalog.group(entry.group)
        place = state(entry, DATA.get().data_dir)
        facts: Facts = {
            "title": entry.title,
            "file": entry.path,
            "size": _show_size(entry.size),
            "state": place,
            "address": entry.url or "none: you provide this file",
            "member of the archive": entry.member,
            "sha256": entry.sha256 or "not published",
            "derived from": entry.derived_from,
            "license": entry.licence,
            "group": f"{group.name}: {group.title}",
            "home page": group.homepage,
        }
        items[name] = Item(entry.title, facts, place)
    return items


LISTERS: dict[str, Callable[[], dict[str, Item]]] = {
    "tasks": _list_tasks,
    "metrics": _list_metrics,
    "configs": _list_configs,
    "sources": _list_sources,
    "files": _list_files,
}


def _print_items(title: str, items: Mapping[str, Item]) -> None:
    """A line for each item, which ends at the edge of a terminal."""
    has_states = any(item.state for item in items.values())
    rows: list[Sequence[str | Text]] = [
        [
            name,
            *([item.state] if has_states else []),
            Text(" ".join(item.summary.partition("\n\n")[0].split()), no_wrap=True, overflow="ellipsis"),
        ]
        for name, item in items.items()
    ]
    _print_grid(title, rows)


def _print_facts(title: str, facts: Facts) -> None:
    """A title and, below it, every fact that is known, beside its name."""
    texts = {name: value if isinstance(value, str) else ", ".join(value or ()) for name, value in facts.items()}
    _print_grid(title, [[name, " ".join(text.split())] for name, text in texts.items() if text])


def _print_grid(title: str, rows: Sequence[Sequence[str | Text]]) -> None:
    """Rows below a title; only their last column is as wide as there is room."""
    grid = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
    for place in range(len(rows[0])):
        grid.add_column(no_wrap=place + 1 < len(rows[0]))
    for row in rows:
        grid.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    say(f"{title}\n{shown_text(grid)}\n")


def _show_size(size: int | None) -> str:
    if size is None:
        return "unknown"
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
