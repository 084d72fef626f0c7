"""Whether scores are probabilities over the other queries of the file."""

from __future__ import annotations

import numpy as np

from cxc_eccv.evaluation.doubts.doubt import Doubt, Evidence
from cxc_eccv.runs import MatrixRun
from cxc_eccv.types import FloatArray, find_sides

LINES_CHECKED = 128
"""Rows and columns that are looked at, evenly spread."""

PROBABILITY_SUMS = (1, 100)
"""Sums of probabilities, as fractions and in percent."""

SUM_TOLERANCE = 0.01
"""How far a sum may be from these, as a part of them."""


def softmax_scores(evidence: Evidence) -> str | None:
    """Say which direction a softmax over the wrong side changes.

    If the scores of every caption sum to 1 over the images, a score of an image's ranking depends on the other images
    in the file, and the other way round. A softmax over the ranked items changes no order. A dual softmax, the product
    of both, has no such sums and is not seen.
    """
    run = evidence.run
    if not isinstance(run, MatrixRun):
        return None
    for direction, scores in run.matrices.items():
        queries, items = scores.shape
        of_items = np.asarray(scores[:, _spread(items)].T, dtype=np.float64)
        if queries > 1 and _sum_to_one(of_items):
            query_side, gallery_side = find_sides(direction)
            return _describe(gallery_side.removesuffix("s"), query_side, direction)
    return None


def _spread(count: int) -> FloatArray:
    return np.unique(np.linspace(0, count - 1, min(count, LINES_CHECKED)).astype(int))


def _sum_to_one(lines: FloatArray) -> bool:
    """Whether each line, or the exponentials of each, are probabilities that sum to 1; not so zeros and ones alone."""
    if (lines <= 0).all() and (lines < 0).any():
        lines = np.exp(lines)
    sums = lines.sum(axis=1)
    for total in PROBABILITY_SUMS:
        is_split = ((lines > 0) & (lines < total)).any()
        if is_split and (lines >= 0).all() and (np.abs(sums - total) <= SUM_TOLERANCE * total).all():
            return True
    return False


def _describe(of: str, over: str, direction: str) -> str:
    return (
        f"The scores of every {of} sum to 1 over the {over}, as after a softmax: in {direction} each depends on which "
        f"other {over} are in the file. Give the scores before the softmax."
    )


DOUBT = Doubt(softmax_scores, explains=("lowest_score", "deciding_ties"))
