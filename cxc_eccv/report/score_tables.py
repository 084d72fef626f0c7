"""The report's numbers as tables: one card per task, a row per metric, a column per direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cxc_eccv.errors import UnknownName
from cxc_eccv.registry import task as task_named
from cxc_eccv.report.wording import interval_text, metric_name, stated, task_name, value_text
from cxc_eccv.types import Report, Result

__all__ = ["Cell", "ScoreTable", "TaskScores", "first_ranks", "task_scores"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A value and its interval as texts; the interval is empty where there is none."""

    value: str
    interval: str


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Directions that share their metrics.

    Attributes:
        directions: the columns.
        rows: name of the metric, whether it is the task's main one, and a cell per column.
    """

    directions: tuple[str, ...]
    rows: tuple[tuple[str, bool, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True)
class TaskScores:
    """All numbers of one task.

    Attributes:
        task: its name in report keys.
        title: its name on paper.
        description: its protocol; empty for a task that this version does not know.
        tables: one per group of directions with the same metrics.
        whole: the same of metrics over all directions together, with one cell each.
    """

    task: str
    title: str
    description: str
    tables: tuple[ScoreTable, ...]
    whole: tuple[tuple[str, bool, Cell], ...]

    @property
    def is_wide(self) -> bool:
        """More than two directions: the card takes the whole width."""
        return sum(len(table.directions) for table in self.tables) > 2


def task_scores(report: Report) -> list[TaskScores]:
    """A card per task, in the report's order.

    Example:
        >>> card = task_scores(Report((Result("coco_5k", "i2t", "recall_at_1", 0.5, 5000),), {}, {}))[0]
        >>> card.title, card.tables[0].rows
        ('COCO 5K', (('R@1', True, (Cell(value='50.0', interval=''),)),))
    """
    names = dict.fromkeys(result.task for result in report.results)
    return [_scores_of(name, [result for result in report.results if result.task == name]) for name in names]


def first_ranks(report: Report) -> list[Result]:
    """Recall at 1 of every task and direction that has it: how one model looks under each set of labels.

    Example:
        >>> rows = [Result("cxc", "i2t", metric, 0.5, 2) for metric in ("recall_at_1", "median_rank")]
        >>> [row.key for row in first_ranks(Report(tuple(rows), {}, {}))]
        ['cxc/i2t/recall_at_1']
    """
    return [result for result in report.results if result.metric == "recall_at_1"]


def _scores_of(name: str, results: Sequence[Result]) -> TaskScores:
    description, main = _declared(name)
    by_direction: dict[str, list[Result]] = {}
    for result in results:
        by_direction.setdefault(result.direction, []).append(result)
    whole = tuple((_row_name(row), row.metric == main, _cell(row)) for row in by_direction.pop("", []))
    groups: dict[tuple[str, ...], list[str]] = {}
    for direction, rows in by_direction.items():
        groups.setdefault(tuple(row.metric for row in rows), []).append(direction)
    tables = tuple(_table([by_direction[one] for one in directions], main) for directions in groups.values())
    return TaskScores(name, task_name(name), description, tables, whole)


def _table(columns: Sequence[Sequence[Result]], main: str) -> ScoreTable:
    """Columns that hold the same metrics in the same order."""
    rows = tuple(
        (_row_name(row[0]), row[0].metric == main, tuple(_cell(result) for result in row))
        for row in zip(*columns, strict=True)
    )
    return ScoreTable(tuple(column[0].direction for column in columns), rows)


def _row_name(result: Result) -> str:
    policy = stated(result.parameters)
    return f"{metric_name(result.metric)} ({policy})" if policy else metric_name(result.metric)


def _cell(result: Result) -> Cell:
    return Cell(value_text(result), interval_text(result))


def _declared(name: str) -> tuple[str, str]:
    """Description and main metric; empty for a task of another version."""
    try:
        found = task_named(name)
    except UnknownName:
        return "", ""
    return found.description, found.main_metric
