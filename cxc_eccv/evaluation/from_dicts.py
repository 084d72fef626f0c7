"""evaluate_rankings: one line for those who have the dicts of the eccv_caption package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from cxc_eccv.evaluation.from_run import evaluate
from cxc_eccv.runs import RankingsRun
from cxc_eccv.types import Report

__all__ = ["evaluate_rankings"]


def evaluate_rankings(
    i2t: Mapping[Any, ArrayLike] | None = None,
    t2i: Mapping[Any, ArrayLike] | None = None,
    tasks: str | Sequence[str] = "all",
    **options: Any,  # noqa: ANN401 - those of evaluate
) -> Report:
    """Score rankings given as dicts, the first two arguments of ``compute_all_metrics`` in the eccv_caption package.

    Its ``coco_1k``, ``coco_5k`` and ``eccv`` metrics are those of the tasks of these names, its ``cxc`` recalls those
    of ``cxc_rated``. Whole rankings give all of them; rankings cut short give those they are deep enough for, and the
    report says which were skipped.

    Args:
        i2t: image id to ranked caption ids, best first.
        t2i: caption id to ranked image ids.
        tasks: as in :func:`evaluate`.
        **options: as in :func:`evaluate`.

    Raises:
        RunError: an empty dict, ids that are no whole numbers, repeated or unknown, queries that are missing, rankings
            too short for what was named.

    Example:
        >>> from cxc_eccv.sources.library import Library
        >>> captions = Library("sample").captions("test")["caption_id"].to_pylist()
        >>> images = Library("sample").images("test")["image_id"].to_pylist()
        >>> report = evaluate_rankings(t2i=dict.fromkeys(captions, images), tasks="coco_5k", data_dir="sample")
        >>> round(report.scores["coco_5k/t2i/recall_at_1"], 4), report.skipped["coco_5k/i2t"]
        (0.0167, 'the run has no i2t rankings')
    """
    return evaluate(RankingsRun.from_dicts(i2t, t2i), tasks, **options)
