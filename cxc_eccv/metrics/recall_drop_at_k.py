"""Recall drop@K, the recall that altered captions cost."""

from __future__ import annotations

from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray
from cxc_eccv.types.altered import AlteredRanks


def recall_drop_at_k(ranks: AlteredRanks, k: int = 1) -> FloatArray:
    """Recall@K without altered captions in the gallery, minus Recall@K with them.

    Per query 1 if altered captions push the best positive out of the top K, else 0; intervals are paired.

    Args:
        ranks: ranks of Q queries without and with altered captions.
        k: depth, at least 1.

    Returns:
        (Q,) zeros and ones.

    Raises:
        InvalidOption: k is not a whole number of at least 1.

    References:
        Park et al., RoCOCO: Robustness Benchmark of MS-COCO to Stress-test Image-Text Matching Models, 2023.

    Example:
        >>> import numpy as np
        >>> from cxc_eccv.types import PositiveRanks
        >>> plain, altered = PositiveRanks.of([[1], [3]]), PositiveRanks.of([[2], [4]])
        >>> ranks = AlteredRanks(plain, altered, np.array([True, False]), np.array([False, False]))
        >>> recall_drop_at_k(ranks, k=1).tolist(), recall_drop_at_k(ranks, k=2).tolist()
        ([1.0, 0.0], [0.0, 0.0])
    """
    return recall_at_k(ranks.plain, k) - recall_at_k(ranks.altered, k)


SPEC = Spec(
    function=recall_drop_at_k,
    title="R@{k} drop",
    needs="altered_ranks",
    parameters={"k": (1, 5, 10)},
    citation="Park et al., 2023, arXiv:2304.10727",
    higher_is_better=False,
    binary=True,
)
