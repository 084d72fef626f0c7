"""``cxc-eccv list``: what there is, and where it stands on this machine."""

from __future__ import annotations

from cxc_eccv.cli.choices import DATA
from cxc_eccv.terminal import Sheet, print_shown


def list_all() -> None:
    """List sources, configs, tasks and metrics with their state on this machine.

    Sources are `in mirror`, `present` (in the cache), `to download`, or `user-provided`.

    Examples:
      cxc-eccv list
      cxc-eccv list --data-dir sample
    """
    from cxc_eccv.builders.config import dataset_configs
    from cxc_eccv.registry import metrics as metrics_by_name
    from cxc_eccv.registry import tasks as tasks_by_name
    from cxc_eccv.sources.download import catalog_of, state

    data_dir = DATA.get().data_dir
    catalog = catalog_of(data_dir)
    sources = [[e.name, e.path, _size(e.size), state(e, data_dir)] for e in catalog.entries.values()]
    configs = [[c.name, ", ".join(c.splits), c.title] for c in dataset_configs().values()]
    tasks = [
        [t.name, " ".join(t.parts), ", ".join(t.splits), _summary(t.description)] for t in tasks_by_name().values()
    ]
    metrics: dict[bool, list[list[str]]] = {False: [], True: []}
    for spec in metrics_by_name().values():
        metrics[spec.explains].append([spec.name, _summary(spec.description)])
    for title, columns, rows, stacked in (
        (f"Sources ({catalog.edition} edition)", ["source", "file", "size", "state"], sources, ((0, 1), (2, 3))),
        ("Configs (build, load_dataset)", ["config", "splits", "what"], configs, ((0, 1), (2,))),
        ("Tasks (evaluate --tasks)", ["task", "parts", "splits", "what"], tasks, ((0, 1, 2), (3,))),
        ("Metrics (evaluate --metrics)", ["metric", "what"], metrics[False], ((0,), (1,))),
        ("Metrics of failures (explain)", ["metric", "what"], metrics[True], ((0,), (1,))),
    ):
        print_shown(Sheet(columns, rows, frozenset(range(len(columns))), [stacked], title=title))


def _summary(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def _size(size: int | None) -> str:
    if size is None:
        return "unknown"
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
