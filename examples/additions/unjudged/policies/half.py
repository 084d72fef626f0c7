"""Half: a pair without a label counts one half."""

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray
from cxc_eccv.unjudged.policies import Policy


def compute(gains: FloatArray, judged: NDArray[np.bool_]) -> FloatArray:
    """(Q,) means where each pair without a label adds one half."""
    return np.asarray(np.where(judged, gains, 0.5).mean(axis=1))


POLICY = Policy("half", "counts it as half entailed", compute)
