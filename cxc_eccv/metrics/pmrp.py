"""PMRP, Plausible Match R-Precision."""

from __future__ import annotations

import numpy as np

from cxc_eccv.judgments.plausible import PlausibleHits
from cxc_eccv.metrics.kinds import PlausibleMetric
from cxc_eccv.types import FloatArray

PMRP_ZETAS = (0, 1, 2)


def pmrp(hits: PlausibleHits) -> FloatArray:
    """Plausible Match R-Precision (PMRP) of PCME: R-Precision averaged over zeta = 0, 1, 2.

    An item is a plausible match if its image and the query's image differ in at most zeta of the 80 COCO categories.
    Per zeta, R is the number of matches and the value is the fraction of the top R items that match. ECCV Caption's
    variant is ``pmrp_at_50``.

    Args:
        hits: matches of Q queries, counted at zeta 0, 1 and 2 without a cut.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        InvalidOption: matches were not counted at one of these zetas.

    References:
        Chun et al., Probabilistic Embeddings for Cross-Modal Retrieval, CVPR 2021, section 4.1.

    Example:
        >>> criteria = (0, None), (1, None), (2, None)
        >>> hits = PlausibleHits(np.array([5]), criteria, np.array([[2, 4, 8]]), np.array([[1, 3, 8]]), np.array([0]))
        >>> pmrp(hits).tolist()
        [0.75]
    """
    return np.asarray(np.mean([hits.precision(zeta) for zeta in PMRP_ZETAS], axis=0))


SPEC = PlausibleMetric(
    pmrp,
    "PMRP",
    citation="Chun et al., CVPR 2021, arXiv:2101.05068",
    criteria=tuple((zeta, None) for zeta in PMRP_ZETAS),
)
