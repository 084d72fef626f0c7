"""Whether many pairs share the lowest score, and numbers hang on their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.evaluation.doubts.deciding_ties import describe_range, find_deciding
from cxc_eccv.evaluation.doubts.doubt import Doubt, Evidence
from cxc_eccv.runs import MatrixRun

LOWEST_SHARE = 0.05
"""Share of the pairs that makes the lowest score a value of its own."""


def lowest_score(evidence: Evidence) -> str | None:
    """Say how many pairs have the lowest score, if ties decide numbers."""
    deciding = find_deciding(evidence.results)
    if not isinstance(evidence.run, MatrixRun) or not deciding:
        return None
    lowest, share = max(map(_count_lowest, evidence.run.matrices.values()), key=lambda found: found[1])
    if share < LOWEST_SHARE:
        return None
    return (
        f"{100 * share:.1f}% of the pairs have the lowest score, {lowest:g}, and ties decide {describe_range(deciding)}"
        ". Does it stand for pairs that were not scored, for an underflow, or for texts without a common word? If "
        f"pairs were not scored, save unscored={lowest} in the file, or a mask of the scored pairs."
    )


def _count_lowest(scores: NDArray[Any]) -> tuple[np.floating[Any], float]:
    """The lowest score, and the share of the pairs that have it."""
    lowest = scores.min()
    return lowest, float(np.count_nonzero(scores == lowest) / scores.size)


DOUBT = Doubt(lowest_score, explains=("deciding_ties",))
