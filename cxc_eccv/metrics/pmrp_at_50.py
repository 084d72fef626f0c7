"""PMRP at 50."""

from __future__ import annotations

import numpy as np

from cxc_eccv.judgments.plausible import PlausibleHits
from cxc_eccv.metrics.kinds import PlausibleMetric
from cxc_eccv.types import FloatArray

PMRP_CUT = 50


def pmrp_at_50(hits: PlausibleHits) -> FloatArray:
    """Plausible Match R-Precision (PMRP) of ECCV Caption: zeta = 0 and R cut to min(R, 50).

    An item matches if its image shows the same set of the 80 COCO categories as the query's image. PCME's metric is
    ``pmrp``.

    Args:
        hits: matches of Q queries, counted at zeta 0 with a cut of 50.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        InvalidOption: matches were not counted at zeta 0 with a cut of 50.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 4.1.

    Example:
        >>> hits = PlausibleHits(np.array([5]), ((0, 50),), np.array([[60]]), np.array([[20]]), np.array([0]))
        >>> pmrp_at_50(hits).tolist()
        [0.4]
    """
    return np.asarray(hits.precision(0, PMRP_CUT))


SPEC = PlausibleMetric(
    pmrp_at_50,
    "PMRP@50",
    citation="Chun et al., ECCV 2022, arXiv:2204.03359",
    criteria=((0, PMRP_CUT),),
)
