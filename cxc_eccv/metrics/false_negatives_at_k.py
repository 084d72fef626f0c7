"""False negatives@K."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.kinds import JudgedMetric
from cxc_eccv.types import FloatArray, JudgedRanks, check_whole


def false_negatives_at_k(ranks: JudgedRanks, k: int = 10) -> FloatArray:
    """Share of the top K that the original links call wrong and people call right.

    Args:
        ranks: ranks of the judged items of Q queries, with verdict 2 for positives that the original links lack.
        k: depth, at least 1; a smaller gallery is looked at whole.

    Returns:
        (Q,) values in [0, 1]. What nobody judged is not counted: the share is at least that.

    Raises:
        InvalidOption: k is not a whole number of at least 1.

    References:
        Chun et al., ECCV Caption, ECCV 2022, on false negatives of retrieval benchmarks.

    Example:
        >>> false_negatives_at_k(JudgedRanks.of([[(1, 0), (2, 2), (4, 1)]]), k=5).tolist()
        [0.2]
    """
    check_whole("false_negatives_at_k: k", k)
    counts = ranks.count((ranks.ranks <= k) & (ranks.verdicts == 2))
    return np.asarray(counts / np.minimum(k, ranks.n_gallery))


SPEC = JudgedMetric(
    false_negatives_at_k,
    "False negatives@{k}",
    parameters={"k": (1, 10)},
    citation="Chun et al., ECCV 2022, arXiv:2204.03359",
)
