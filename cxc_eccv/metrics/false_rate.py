"""False rate, how often an altered caption ranks first."""

from __future__ import annotations

from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray
from cxc_eccv.types.altered import AlteredRanks


def false_rate(ranks: AlteredRanks) -> FloatArray:
    """Fraction of queries whose top item is an altered caption.

    Altered captions are made from the originals and added to the gallery; they are never positives. Ties count as
    false: an altered caption ranks above an original of the same score.

    Args:
        ranks: ranks of Q queries without and with altered captions.

    Returns:
        (Q,) zeros and ones.

    References:
        Park et al., RoCOCO: Robustness Benchmark of MS-COCO to Stress-test Image-Text Matching Models, 2023.

    Example:
        >>> import numpy as np
        >>> from cxc_eccv.types import PositiveRanks
        >>> plain, altered = PositiveRanks.of([[1], [3]]), PositiveRanks.of([[2], [3]])
        >>> false_rate(AlteredRanks(plain, altered, np.array([True, False]), np.array([False, False]))).tolist()
        [1.0, 0.0]
    """
    return ranks.top_altered.astype("float64")


SPEC = Spec(
    function=false_rate,
    title="False rate",
    needs="altered_ranks",
    citation="Park et al., 2023, arXiv:2304.10727",
    higher_is_better=False,
    binary=True,
)
