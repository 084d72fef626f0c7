"""What a submission writes: ``.eval_results/cxc_eccv.yaml`` for the leaderboard, and a card's older model-index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, eval_result_entries_to_yaml
from huggingface_hub.repocard_data import eval_results_to_model_index

from cxc_eccv.errors import HubConflict
from cxc_eccv.hub import front_matter
from cxc_eccv.hub.leaderboard import NAME, SPLIT, leaderboard_tasks

__all__ = ["PATH", "add_results", "merge_results", "same_results"]

PATH = ".eval_results/cxc_eccv.yaml"


def merge_results(before: str | None, entries: Sequence[EvalResultEntry], where: str = PATH) -> str:
    """Put entries into the file: those of the same task are replaced, all others kept.

    An entry that states the same value for the same revision is kept as it is, with its date.

    Args:
        before: what is there; None for nothing.
        entries: new results.
        where: which file, for messages.

    Raises:
        HubConflict: what is there does not have the form of such a file.

    Example:
        >>> print(merge_results(None, [EvalResultEntry("org/data", "cxc_i2t_recall_at_1", 0.5)]), end="")
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
        >>> first = merge_results(None, [EvalResultEntry("o/d", "t", 0.5, date="2026-11-19")])
        >>> second = merge_results(None, [EvalResultEntry("o/d", "t", 0.5, date="2026-11-20")])
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


KEY = "model-index"


def add_results(card: str | None, entries: Sequence[EvalResultEntry], model: str, where: str) -> str:
    """Put results into the front matter of the model's card; everything else stays as it is.

    Earlier results on the same dataset with the same metric names are replaced, others are kept.

    Args:
        card: the card; None where the model has none.
        entries: results of leaderboard tasks.
        model: ``owner/name``, for a card without a ``model-index``.
        where: which card, for messages.

    Raises:
        HubConflict: the ``model-index`` there does not have its form.
        HubError: the front matter is not a YAML mapping.

    Example:
        >>> entry = EvalResultEntry("org/data", "cxc_i2t_recall_at_1", 0.5)
        >>> "type: recall_at_1" in add_results("# My model", [entry], "me/model", "README.md")
        True
    """
    matter, body = front_matter.split(card or "")
    index = front_matter.parse(matter, where).get(KEY) or [{"name": model, "results": []}]
    try:
        kept = [left for row in index[0]["results"] if (left := _drop_restated(row, entries))]
        rows = [*kept, *_metric_rows(entries, model)]
    except (KeyError, TypeError, IndexError, AttributeError):
        raise HubConflict(
            f"{where}: its {KEY} does not have the form the Hub documents. Correct or remove it."
        ) from None
    changed = [{**index[0], "results": rows}, *index[1:]]
    return front_matter.join(front_matter.replace(matter, {KEY: changed}, where), body)


def _metric_rows(entries: Sequence[EvalResultEntry], model: str) -> list[dict[str, Any]]:
    board = {task.task_id: task for task in leaderboard_tasks().values()}
    results = [
        EvalResult(
            task_type="image-text-retrieval",
            dataset_type=entry.dataset_id,
            dataset_name=NAME,
            dataset_config=board[entry.task_id].config,
            dataset_split=SPLIT,
            dataset_revision=entry.dataset_revision,
            metric_type=board[entry.task_id].key.rpartition("/")[2],
            metric_name=board[entry.task_id].key,
            metric_value=entry.value,
        )
        for entry in entries
    ]
    rows: list[dict[str, Any]] = eval_results_to_model_index(model, results)[0]["results"]
    return rows


def _drop_restated(row: dict[str, Any], entries: Sequence[EvalResultEntry]) -> dict[str, Any] | None:
    """A row without the metrics that are stated anew; None where none is left."""
    if row["dataset"].get("type") not in {entry.dataset_id for entry in entries}:
        return row
    keys = {task.task_id: task.key for task in leaderboard_tasks().values()}
    anew = {keys[entry.task_id] for entry in entries}
    metrics = [metric for metric in row["metrics"] if metric.get("name") not in anew]
    return {**row, "metrics": metrics} if metrics else None
