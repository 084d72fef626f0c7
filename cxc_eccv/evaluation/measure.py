"""One pass over a run's scores or rankings, in which all needs are met."""

from __future__ import annotations

from collections.abc import Sequence

from cxc_eccv.evaluation.select import Part
from cxc_eccv.ranking import ranks_of_run
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.runs import Run

__all__ = ["measure"]


def measure(
    run: Run,
    parts: Sequence[Part],
    *,
    similarity: str | None,
    block_size: int | None,
    progress: bool,
    device: str | None = None,
) -> None:
    """Let every need of the parts learn from a run what its metrics are computed from.

    Args:
        run: embeddings, scores or rankings.
        parts: what was selected for this run.
        similarity: ``cosine`` or ``dot`` of embeddings, else None.
        block_size: queries that one thread scores at once, or None.
        progress: show a bar when standard error is a terminal.
        device: a torch device to score on, or None for NumPy.

    Raises:
        MissingIds: the run lacks items that a task needs.
        InvalidOption: an option out of range.
    """
    needs = [need for part in parts for need in part.needs]
    judgments = {need.key: (need.direction, need.judgments) for need in needs if need.judgments is not None}
    readers: dict[str, list[RowReader]] = {}
    for need in needs:
        if need.reader is not None:
            readers.setdefault(need.direction, []).append(need.reader)
    options = {"similarity": similarity, "block_size": block_size, "progress": progress, "device": device}
    ranks = ranks_of_run(run, judgments, readers=readers, **options)
    for need in needs:
        need.learn(run, ranks, similarity)
