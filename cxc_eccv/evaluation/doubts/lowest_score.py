"""Whether many pairs share the lowest score, and numbers hang on their order."""

from __future__ import annotations

import numpy as np

from cxc_eccv.evaluation.doubts.deciding_ties import describe_range, find_deciding
from cxc_eccv.evaluation.doubts.doubt import Doubt, Evidence
from cxc_eccv.runs import ScoresRun

LOWEST_SHARE = 0.05
"""Share of the pairs that makes the lowest score a value of its own."""


def lowest_score(evidence: Evidence) -> str | None:
    """Say how many pairs have the lowest score, if ties decide numbers."""
    deciding = find_deciding(evidence.results)
    if not isinstance(evidence.run, ScoresRun) or not deciding:
        return None
    scores = evidence.run.scores
    lowest = scores.min()
    share = float(np.count_nonzero(scores == lowest) / scores.size)
    if share < LOWEST_SHARE:
        return None
    return (
        f"{100 * share:.1f}% of the pairs have the lowest score, {lowest:g}, and ties decide {describe_range(deciding)}"
        ". Does it stand for pairs that were not scored, for an underflow, or for texts without a common word? Give "
        "rankings of what was scored in place of a filler."
    )


DOUBT = Doubt(lowest_score, explains=("deciding_ties",))
