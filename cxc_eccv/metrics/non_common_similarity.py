"""Non-common concept similarity, NCS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import linear_sum_assignment

from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray
from cxc_eccv.types.seen import ConceptPairs

__all__ = ["SPEC", "non_common_similarity"]


def non_common_similarity(pairs: ConceptPairs, similarity: Callable[[str, str], float]) -> FloatArray:
    r"""How close the concepts that only one of the two images shows are to each other.

    The concepts of the ground truth alone, :math:`D_g = V(I_g) \setminus V(I_r)`, are matched one to one with those of
    the retrieved image alone, :math:`D_r = V(I_r) \setminus V(I_g)`, so that the similarities of the pairs have the
    largest sum; the value is their mean over the :math:`\min(|D_g|, |D_r|)` pairs. (The paper prints
    :math:`V_{(g,r)} - V(I_r)` and :math:`V_{(g,r)} - V(I_g)`, which are empty; its worked example has the sets above.)

    Args:
        pairs: what both images of F failures show.
        similarity: of two concepts, in [0, 1] and symmetric: WordNet's path similarity in the paper.

    Returns:
        (F,) values in [0, 1]; NaN where one of the two sets is empty, so that nothing can be matched.

    References:
        Lymperaiou et al., 2022, section 4.1.

    Example:
        >>> some = np.array([])
        >>> truth, retrieved = {"dog": some, "ball": some}, {"dog": some, "disc": some, "sky": some}
        >>> alike = {("ball", "disc"): 0.5, ("ball", "sky"): 0.1}
        >>> pair = ConceptPairs(np.array([1]), [truth], [retrieved])
        >>> non_common_similarity(pair, lambda one, other: alike[one, other]).tolist()
        [0.5]
    """
    values = np.full(len(pairs), np.nan)
    for row, (truth, shown) in enumerate(zip(pairs.truths, pairs.retrieved, strict=True)):
        left, right = sorted(truth.keys() - shown.keys()), sorted(shown.keys() - truth.keys())
        if left and right:
            table = np.array([[similarity(one, other) for other in right] for one in left])
            values[row] = table[linear_sum_assignment(table, maximize=True)].mean()
    return values


SPEC = Spec(
    function=non_common_similarity,
    title="NCS",
    long_title="Non-common concept similarity",
    needs="concepts",
    citation="Lymperaiou et al., 2022, arXiv:2209.03723",
)
