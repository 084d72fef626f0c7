"""``docs/tasks.md``: every task of the registry; and the table of leaderboard tasks in ``docs/leaderboard.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from cxc_eccv import registry
from cxc_eccv.evaluate_modules.module_cards import ARXIV
from cxc_eccv.hub.leaderboard import leaderboard_tasks
from cxc_eccv.metrics.families import find_family
from cxc_eccv.tasks.task import Task
from cxc_eccv.terminal import markdown_table

__all__ = ["leaderboard_table", "task_links", "task_sections", "tasks_table"]

SHOWN = "test"
"""The split that every task is defined on."""

COLUMNS = {
    "part": "part",
    "queries": "queries",
    "gallery": "gallery",
    "pairs": "rated pairs",
    "labelled": "labelled pairs",
    "positives": "positives",
    "R": "R of a query",
    "unreachable": "positives outside the gallery",
}


def tasks_table() -> str:
    """A row for every task, by the question that its main metric answers."""
    rows = []
    for family, tasks in registry.group_tasks().items():
        question = family.question
        for task in tasks:
            rows.append((question, ", ".join(task_links([task])), ", ".join(task.splits), _linked(task.main_metric)))
            question = ""
    return markdown_table(["question", "task", "splits", "main metric"], rows)


def task_sections(sizes: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """One section for every task."""
    tasks = chain.from_iterable(registry.group_tasks().values())
    return "\n\n".join(_section(task, sizes.get(task.name, [])) for task in tasks)


def task_links(tasks: Sequence[Task], page: str = "") -> list[str]:
    """Links to the sections of these tasks."""
    return [f"[`{task.name}`]({page}#{task.name})" for task in tasks]


def _section(task: Task, sizes: Sequence[Mapping[str, Any]]) -> str:
    """Heading, description, facts and sizes of one task."""
    blocks = [f"## `{task.name}`", task.description, _facts(task)]
    return "\n\n".join([*blocks, "Its sizes are those of the label files." if task.of_label_files else _sizes(sizes)])


def _facts(task: Task) -> str:
    """Metrics and papers, a line each."""
    lines = {
        "metrics": ", ".join(map(_linked, task.metrics)),
        "defined in": ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", task.citation),
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
    function = spec.function.__name__
    family = find_family(registry.metric_functions()[function])
    return f"[`{metric}`](metrics/{family.name}.md#{function})"
