"""False rate, how often an altered caption stands first."""

from __future__ import annotations

from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray
from cxc_eccv.types.altered import AlteredRanks


def false_rate(ranks: AlteredRanks) -> FloatArray:
    """Fraction of queries whose first item is an altered caption, and so wrong whatever the labels say.

    Altered captions are made from originals and added to the gallery; which originals are positives is of no matter. A
    query whose first place an altered caption and an original share counts as false: the altered one stands above
    whatever it ties with.

    Args:
        ranks: rankings of Q queries, and what altered captions do to them.

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
