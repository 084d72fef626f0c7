"""Not entailed: a pair without a label counts 0."""

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray
from cxc_eccv.unjudged.policies import Policy


def compute(gains: FloatArray, judged: NDArray[np.bool_]) -> FloatArray:
    """(Q,) sums of gains over K."""
    return np.asarray(gains.mean(axis=1))


POLICY = Policy("not_entailed", "counts it as not entailed", compute)
