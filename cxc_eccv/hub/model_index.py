"""``model-index``: the older place of results, in the front matter of a model's card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from huggingface_hub import EvalResult, EvalResultEntry
from huggingface_hub.repocard_data import eval_results_to_model_index

from cxc_eccv.errors import HubConflict
from cxc_eccv.hub import front_matter, front_matter_merge
from cxc_eccv.hub.eval_yaml import NAME
from cxc_eccv.hub.leaderboard import SPLIT, leaderboard_tasks

__all__ = ["card_with_results"]

KEY = "model-index"


def card_with_results(card: str | None, entries: Sequence[EvalResultEntry], model: str, where: str) -> str:
    """The model's card with these results in its front matter; everything else stays as it is.

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
        >>> "type: recall_at_1" in card_with_results("# My model", [entry], "me/model", "README.md")
        True
    """
    matter, body = front_matter.split(card or "")
    index = front_matter.parsed(matter, where).get(KEY) or [{"name": model, "results": []}]
    try:
        kept = [left for row in index[0]["results"] if (left := _without(row, entries))]
        rows = [*kept, *_rows(entries, model)]
    except (KeyError, TypeError, IndexError, AttributeError):
        raise HubConflict(
            f"{where}: its {KEY} does not have the form the Hub documents. Correct or remove it."
        ) from None
    changed = [{**index[0], "results": rows}, *index[1:]]
    return front_matter.joined(front_matter_merge.replaced(matter, {KEY: changed}, where), body)


def _rows(entries: Sequence[EvalResultEntry], model: str) -> list[dict[str, Any]]:
    board = {one.task_id: one for one in leaderboard_tasks().values()}
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


def _without(row: dict[str, Any], entries: Sequence[EvalResultEntry]) -> dict[str, Any] | None:
    """A row without the metrics that are stated anew; None where none is left."""
    if row["dataset"].get("type") not in {entry.dataset_id for entry in entries}:
        return row
    keys = {one.task_id: one.key for one in leaderboard_tasks().values()}
    anew = {keys[entry.task_id] for entry in entries}
    metrics = [metric for metric in row["metrics"] if metric.get("name") not in anew]
    return {**row, "metrics": metrics} if metrics else None
