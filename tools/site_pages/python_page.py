"""``docs/reference/python.md``: the public names, types and declarations, for mkdocstrings to describe."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Sequence

from cxc_eccv import errors
from cxc_eccv.builders.markdown import table

__all__ = ["error_table", "reference"]

SECTIONS = {
    "Runs": ("cxc_eccv.runs", ("EmbeddingsRun", "ScoresRun", "RankingsRun")),
    "Comparison": ("cxc_eccv.comparison", ("ScoredReport", "Comparison", "Difference", "place", "metric_agreement")),
    "Registry": ("cxc_eccv.registry", ("tasks", "metrics", "task", "metric", "metric_variants")),
    "Judgments": ("cxc_eccv.judgments.qrels", ("coco_links", "merged_qrels", "cxc_rated", "eccv_caption")),
    "Types": ("cxc_eccv.types", ()),
    "Concepts that images show": ("cxc_eccv.types.seen", ("ConceptPairs",)),
    "Numbers of failures": ("cxc_eccv.studies.explain.measures", ()),
    "Concepts that sentences mention": ("cxc_eccv.studies.explain.mentions", ("find_mentions",)),
    "Declaring a metric": ("cxc_eccv.metrics.spec", ("Spec",)),
    "Declaring a task": ("cxc_eccv.tasks.task", ("Task",)),
    "Declaring a dataset config": ("cxc_eccv.builders.config", ("DatasetConfig", "BuildOptions", "Rows")),
}
"""Heading to a module and names in it; no names for all that it exports."""


def reference() -> str:
    """Directives for everything public, the names of ``import cxc_eccv as ce`` first."""
    blocks = ["## `import cxc_eccv as ce`", *_directives("cxc_eccv", ())]
    for heading, (module, names) in SECTIONS.items():
        blocks += [f"## {heading}", *_directives(module, names)]
    return "\n\n".join(blocks)


def error_table() -> str:
    """A row for every exception of the tree."""
    named = {name: getattr(errors, name) for name in errors.__all__}
    tree: dict[str, type[Exception]] = {
        name: kind for name, kind in named.items() if inspect.isclass(kind) and issubclass(kind, Exception)
    }
    rows = [(f"`{name}`", f"`{kind.__bases__[0].__name__}`", _summary(kind)) for name, kind in tree.items()]
    return table(["exception", "is a", "when"], rows)


def _directives(module: str, names: Sequence[str]) -> Iterator[str]:
    """One for each function and class, by the module that defines it."""
    home = importlib.import_module(module)
    for name in names or home.__all__:
        value = getattr(home, name)
        if inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value)):
            yield f"::: {value.__module__}.{value.__qualname__}"


def _summary(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]
