"""``.eval_results/cxc_eccv.yaml`` of a model repository: results that the benchmark's leaderboard collects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

from cxc_eccv.errors import HubConflict

__all__ = ["PATH", "merged_results", "same_results"]

PATH = ".eval_results/cxc_eccv.yaml"


def merged_results(before: str | None, entries: Sequence[EvalResultEntry], where: str = PATH) -> str:
    """The file with these entries: those of the same task are replaced, all others kept.

    An entry that states the same value for the same revision is kept as it is, with its date.

    Args:
        before: what is there; None for nothing.
        entries: new results.
        where: which file, for messages.

    Raises:
        HubConflict: what is there does not have the form of such a file.

    Example:
        >>> print(merged_results(None, [EvalResultEntry("org/data", "cxc_i2t_recall_at_1", 0.5)]), end="")
        - dataset:
            id: org/data
            task_id: cxc_i2t_recall_at_1
          value: 0.5
    """
    rows = {_place(row): row for row in _rows(before, where)}
    for row in eval_result_entries_to_yaml(list(entries)):
        there = rows.get(_place(row))
        if there is None or _stated(there) != _stated(row):
            rows[_place(row)] = row
    text: str = yaml.safe_dump(list(rows.values()), sort_keys=False, allow_unicode=True, width=1000)
    return before if before is not None and _rows(before, where) == list(rows.values()) else text


def same_results(one: str, other: str) -> bool:
    """Whether two files state the same results, whenever they were computed.

    Example:
        >>> first = merged_results(None, [EvalResultEntry("o/d", "t", 0.5, date="2026-11-19")])
        >>> second = merged_results(None, [EvalResultEntry("o/d", "t", 0.5, date="2026-11-20")])
        >>> same_results(first, second)
        True
    """
    return [_stated(row) for row in _rows(one, "one")] == [_stated(row) for row in _rows(other, "other")]


def _rows(text: str | None, where: str) -> list[dict[str, Any]]:
    if text is None:
        return []
    try:
        rows = yaml.safe_load(text)
        if isinstance(rows, list) and all(isinstance(row["value"], int | float) and _place(row) for row in rows):
            return rows
    except (yaml.YAMLError, KeyError, TypeError):
        pass
    raise HubConflict(
        f"{where} is not a list of results with dataset.id, dataset.task_id and value. Correct or delete it."
    )


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["dataset"]["id"], row["dataset"]["task_id"]


def _stated(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "date"}
