"""Whether positives stand at the end of rankings that were cut short."""

from __future__ import annotations

import numpy as np

from cxc_eccv.evaluation.doubts.doubt import Doubt, Evidence, average_by_image
from cxc_eccv.evaluation.doubts.random_order import FEWEST_IMAGES, STANDARD_ERRORS
from cxc_eccv.ranking.cut_rankings import GivenRanks
from cxc_eccv.runs import RankingsRun
from cxc_eccv.types import FloatArray
from cxc_eccv.types.ids import number_within


def reversed_rankings(evidence: Evidence) -> str | None:
    """Say in which directions positives stand at the end of cut rankings.

    A query's measure is the share of the other items in its ranking that its positives there outrank, items that tie
    counted half: 1/2 by chance. The right items in reverse order leave R@K high at the depth of the rankings and make
    all else wrong.
    """
    reverse: list[str] = []
    directions: list[str] = []
    for direction, result, images in evidence.rankings():
        ranks = result.ranks
        if not isinstance(ranks, GivenRanks) or ranks.complete.all():
            continue
        shares = _find_outranked_in_list(ranks)
        known = np.isfinite(shares)
        if np.unique(images[known]).size < FEWEST_IMAGES:
            continue
        gain, error = average_by_image(shares[known] - 0.5, images[known])
        if gain < -STANDARD_ERRORS * error:
            reverse.append(f"in {direction} they outrank {100 * shares[known].mean():.1f}%")
            directions.append(direction)
    if not reverse:
        return None
    remedy = "Are the lists worst first? Give the best first."
    if isinstance(evidence.run, RankingsRun) and evidence.run.lists[directions[0]].scores is not None:
        remedy = "Are the scores distances or ranks? Give their negatives: higher must mean more similar."
    return (
        f"Positives stand at the end of the rankings: {'; '.join(reverse)} of the other items in them (by chance "
        f"50.0%). {remedy}"
    )


def _find_outranked_in_list(ranks: GivenRanks) -> FloatArray:
    """(Q,) mean share of the other items in a ranking that the positives there outrank; NaN without either."""
    counts = ranks.n_found
    helped = ranks if ranks.if_ties_help is None else ranks.if_ties_help
    above = (ranks.ranks + helped.ranks) / 2 - 1 - number_within(counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - ranks.sum(above) / counts / (ranks.depths - counts))


DOUBT = Doubt(reversed_rankings)
