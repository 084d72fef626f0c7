"""``docs/tasks.md``: every task of the registry; and the table of leaderboard tasks in ``docs/leaderboard.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cxc_eccv import registry
from cxc_eccv.adapters.described import ARXIV
from cxc_eccv.hub.leaderboard import leaderboard_tasks
from cxc_eccv.tasks.task import Task
from cxc_eccv.terminal import markdown_table

__all__ = ["leaderboard_table", "task_links", "task_sections", "tasks_table"]

SHOWN = "test"
"""The split that every task is defined on."""

COLUMNS = {
    "labels": "tasks",
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
    """A row for every task; the tasks of a family share one."""
    rows = [
        (
            ", ".join(task_links(tasks)),
            ", ".join(tasks[0].splits),
            f"`{tasks[0].main_metric}`",
        )
        for tasks in families()
    ]
    return markdown_table(["task", "splits", "main metric"], rows)


def task_sections(sizes: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """One section for every task that stands alone, and one for every family."""
    return "\n\n".join(
        _section(tasks[0], sizes.get(tasks[0].name, [])) if len(tasks) == 1 else _family_section(tasks, sizes)
        for tasks in families()
    )


def families() -> list[list[Task]]:
    """The tasks of the registry in order; those that differ only in their altered captions and labels are together."""
    grouped: dict[str, list[Task]] = {}
    for task in registry.tasks().values():
        grouped.setdefault(_family(task), []).append(task)
    return list(grouped.values())


def task_links(tasks: Sequence[Task], page: str = "") -> list[str]:
    """Links to the sections of these tasks; a family has one."""
    names = dict.fromkeys(
        (_family(task), task.name if _family(task) == task.name else f"{_family(task)}_*") for task in tasks
    )
    return [f"[`{name}`]({page}#{family})" for family, name in names]


def _family(task: Task) -> str:
    """What stands before the kind of altered captions in the name of a task; else the whole name."""
    return task.name.partition(f"_{task.altered}")[0] if task.altered else task.name


def _section(task: Task, sizes: Sequence[Mapping[str, Any]]) -> str:
    """Heading, description, facts and sizes of one task."""
    blocks = [f"## `{task.name}`", task.description, _facts([task])]
    return "\n\n".join([*blocks, "Its sizes are those of the label files." if task.of_label_files else _sizes(sizes)])


def _family_section(tasks: Sequence[Task], sizes: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """One section for tasks that differ in the kind of altered captions, or in the labels."""
    name = _family(tasks[0])
    kinds = list(dict.fromkeys(task.altered for task in tasks))
    labels = list(dict.fromkeys(task.name.removeprefix(f"{name}_{task.altered}") for task in tasks))
    rows = [{"labels": label, **row} for label in labels for row in sizes.get(f"{name}_{kinds[0]}{label}", [])]
    named = [f"`{name}_<kind>{label}`" for label in labels]
    blocks = [
        f"## `{name}`",
        f"{len(tasks)} tasks, {', '.join(named)}, for the kinds {', '.join(f'`{kind}`' for kind in kinds)}. "
        f"[Altered captions](altered_captions.md#{name}) describes them.",
        _facts(tasks),
        _sizes([{**row, "labels": f"`{name}_<kind>{row['labels']}`"} for row in rows]),
    ]
    return "\n\n".join(blocks)


def _facts(tasks: Sequence[Task]) -> str:
    """Metrics and papers, a line each."""
    metrics = dict.fromkeys(name for task in tasks for name in (*task.metrics, *task.whole))
    papers = dict.fromkeys(paper for task in tasks for paper in task.citation.split("; "))
    lines = {
        "metrics": ", ".join(map(_linked, metrics)),
        "defined in": ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", "; ".join(papers)),
    }
    return "\n".join(f"- {name}: {value}" for name, value in lines.items())


def leaderboard_table() -> str:
    """A row for every task that the leaderboard declares by default."""
    return markdown_table(
        ["key in report.json"], [(f"`{entry.key}`",) for entry in leaderboard_tasks().values() if entry.main]
    )


def _sizes(rows: Sequence[Mapping[str, Any]]) -> str:
    """A row for every part, of the test split."""
    if not rows:
        return "Sizes were not computed: its raw files were not at hand."
    shown = [name for name in COLUMNS if any(name in row for row in rows)]
    return markdown_table(
        [COLUMNS[name] for name in shown], [[row.get(name) for name in shown] for row in rows if row["split"] == SHOWN]
    )


def _linked(metric: str) -> str:
    spec, _ = registry.metric_variants(metric)
    return f"[`{metric}`](metrics/{spec.name}.md)"
