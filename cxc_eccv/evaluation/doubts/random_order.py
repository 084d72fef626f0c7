"""Whether positives are ranked no better than in a random order, or worse."""

from __future__ import annotations

import numpy as np

from cxc_eccv.evaluation.doubts.doubt import Doubt, Evidence, average_by_image
from cxc_eccv.metrics.chances import expect_recall
from cxc_eccv.ranking.counts import count_reachable, gallery_sizes
from cxc_eccv.ranking.cut_rankings import GivenRanks
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import CROSS_MODAL, FloatArray, IntArray, Judgments, PositiveRanks
from cxc_eccv.types.ids import number_within

STANDARD_ERRORS = 4
"""Standard errors over images by which a model must be better than a random order."""

FEWEST_IMAGES = 10
"""Images from which on a standard error says something."""


def random_order(evidence: Evidence) -> str | None:
    """Say in which directions positives do not rank above other items.

    A query's measure is the share of other items that its positives outrank, items that tie counted half: 1/2 by
    chance, whatever the gallery and R. Rankings that end early say only whether a positive is in their top K. A model
    that finds captions of images has its rows in order, so that it may be weak within one side.
    """
    better: list[str] = []
    chance: dict[str, str] = {}
    reverse: dict[str, str] = {}
    for direction, result, images in evidence.rankings():
        ranks = result.ranks
        judged = result.metric_input.judged
        if isinstance(ranks, GivenRanks) and not ranks.complete.all():
            found = _find_hits(ranks, judged)
        else:
            found = _find_outranked(ranks)
        if found is None:
            continue
        values, expected, what = found
        known = np.isfinite(values)
        if np.unique(images[known]).size < FEWEST_IMAGES:
            continue
        gain, error = average_by_image((values - expected)[known], images[known])
        if gain > STANDARD_ERRORS * error:
            better.append(direction)
            continue
        shares = f"{100 * values[known].mean():.1f}% (by chance {100 * expected[known].mean():.1f}%)"
        figure = f"in {direction} {what.format(shares)}"
        (reverse if gain < -STANDARD_ERRORS * error else chance)[direction] = figure
    if set(better) & set(CROSS_MODAL):
        chance = {direction: figure for direction, figure in chance.items() if direction in CROSS_MODAL}
    if reverse:
        return (
            f"Positives rank below other items: {'; '.join(reverse.values())}. Are the scores distances? Give their "
            "negatives: higher must mean more similar."
        )
    if not chance:
        return None
    remedy = "Are the rows in another order than the ids"
    if not isinstance(evidence.run, EmbeddingsRun):
        remedy += ", or the scores distances instead of similarities"
    return f"Positives rank as in a random order: {'; '.join(chance.values())}. {remedy}?"


def _find_outranked(ranks: PositiveRanks) -> tuple[FloatArray, FloatArray, str] | None:
    """(Q,) mean share of other items that a query's positives outrank, (Q,) 1/2, and what that is."""
    counts = np.diff(ranks.indptr)
    helped = ranks if ranks.if_ties_help is None else ranks.if_ties_help
    above = (ranks.ranks + helped.ranks) / 2 - 1 - number_within(counts)
    others = ranks.n_gallery - counts
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = 1 - ranks.sum(above) / counts / others
    return shares, np.full(shares.shape, 0.5), "they outrank {} of the other items"


def _find_hits(ranks: GivenRanks, judged: Judgments) -> tuple[FloatArray, FloatArray, str] | None:
    """(Q,) whether a positive is in the top K, (Q,) the chance of it, and what that is; K has a chance below 1/2."""
    sizes = gallery_sizes(judged)
    reachable = count_reachable(judged)
    depth = _find_depth(sizes, reachable, int(ranks.depths.min()))
    if depth == 0:
        return None
    return (ranks.best <= depth).astype(float), expect_recall(sizes, reachable, depth), f"R@{depth} is {{}}"


def _find_depth(sizes: IntArray, reachable: IntArray, deepest: int) -> int:
    """The greatest K up to the depth of all rankings at which chance finds a positive in less than half of queries."""
    low = 0
    high = deepest
    while low < high:
        middle = (low + high + 1) // 2
        is_below = expect_recall(sizes, reachable, middle).mean() < 0.5
        low, high = (middle, high) if is_below else (low, middle - 1)
    return low


DOUBT = Doubt(random_order)
