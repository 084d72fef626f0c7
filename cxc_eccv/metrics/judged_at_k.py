"""Judged@K."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.kinds import JudgedMetric
from cxc_eccv.types import FloatArray, JudgedRanks, check_whole


def judged_at_k(ranks: JudgedRanks, k: int = 10) -> FloatArray:
    """Share of the top K that somebody judged, whatever they said.

    Args:
        ranks: ranks of the judged items of Q queries.
        k: depth, at least 1; a smaller gallery is looked at whole.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        InvalidOption: k is not a whole number of at least 1.

    References:
        MacAvaney, Macdonald and Ounis, Streamlining Evaluation with ir-measures, ECIR 2022.

    Example:
        >>> judged_at_k(JudgedRanks.of([[(1, 0), (4, 1), (9, 2)]]), k=5).tolist()
        [0.4]
    """
    check_whole("judged_at_k: k", k)
    counts = ranks.count(ranks.ranks <= k)
    return np.asarray(counts / np.minimum(k, ranks.n_gallery))


SPEC = JudgedMetric(
    judged_at_k,
    "Judged@{k}",
    parameters={"k": (1, 10)},
    citation="MacAvaney et al., ECIR 2022, arXiv:2111.13466",
)
