"""``docs/tasks.md``: every task of the registry; and the table of leaderboard tasks in ``docs/leaderboard.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cxc_eccv import registry
from cxc_eccv.adapters.described import ARXIV
from cxc_eccv.builders.markdown import table
from cxc_eccv.hub.leaderboard import leaderboard_tasks
from cxc_eccv.tasks.task import Task

__all__ = ["leaderboard_table", "task_section", "tasks_table"]

COLUMNS = {
    "split": "split",
    "part": "part",
    "queries": "queries",
    "gallery": "gallery",
    "pairs": "rated pairs",
    "items": "items",
    "images": "images",
    "labelled": "labelled pairs",
    "positives": "positives",
    "R": "R of a query",
    "unreachable": "positives outside the gallery",
}


def tasks_table() -> str:
    """A row for every task."""
    rows = [
        (f"[`{name}`](#{name})", " ".join(task.parts), ", ".join(task.splits), f"`{task.main_metric}`")
        for name, task in registry.tasks().items()
    ]
    return table(["task", "parts", "splits", "main metric"], rows)


def task_section(task: Task, sizes: Sequence[Mapping[str, Any]]) -> str:
    """Heading, description, facts and sizes of one task."""
    facts = [
        ("metrics by default", ", ".join(_linked(name) for name in (*task.metrics, *task.whole))),
        ("collection", task.collection.name),
        ("labels", task.licence),
        ("defined in", ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", task.citation)),
    ]
    blocks = [f"## `{task.name}`", task.description, table(["property", "value"], facts)]
    return "\n\n".join([*blocks, "Its sizes are those of the label files." if task.of_label_files else _sizes(sizes)])


def leaderboard_table() -> str:
    """A row for every task that the leaderboard declares by default."""
    rows = [(f"`{entry.key}`", f"`{entry.config}`") for entry in leaderboard_tasks().values() if entry.main]
    return table(["key in report.json", "config with the labels"], rows)


def _sizes(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "Sizes were not computed: its raw files were not at hand."
    shown = [name for name in COLUMNS if any(name in row for row in rows)]
    return table([COLUMNS[name] for name in shown], [[row.get(name) for name in shown] for row in rows])


def _linked(metric: str) -> str:
    spec, _ = registry.metric_variants(metric)
    return f"[`{metric}`](metrics/{spec.name}.md)"
