"""Leave out: the value of a query is that of its labelled pairs."""

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray
from cxc_eccv.unjudged.policies import Policy


def compute(gains: FloatArray, judged: NDArray[np.bool_]) -> FloatArray:
    """(Q,) mean gains of labelled pairs."""
    return np.asarray(gains.sum(axis=1) / judged.sum(axis=1))


POLICY = Policy("leave_out", "leaves it out of the fraction", compute, needs_label=True)
