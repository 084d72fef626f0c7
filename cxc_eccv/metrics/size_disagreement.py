"""Size disagreement, SD."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray
from cxc_eccv.types.seen import ConceptPairs

__all__ = ["RELATIVE_TO", "SPEC", "match_sizes", "size_disagreement"]

RELATIVE_TO = ("truth", "smaller", "image")
"""What an area difference is a share of: the instance in the ground truth, the smaller of the two, or the image."""


def size_disagreement(pairs: ConceptPairs, relative_to: str = "smaller", threshold: float | None = 1.0) -> FloatArray:
    r"""How far the instances of common concepts differ in size, at the best matching.

    The instances of each common concept are matched one to one so that their area differences :math:`D_A` have the
    smallest sum. With a threshold :math:`T_D` (binary, as in the paper's tables) the value is the share of all matches
    with :math:`D_A \ge T_D`. Without one it is the paper's sum over common concepts of the mean :math:`D_A`.

    The paper defines :math:`D_A = |A_g - A_r|`, but its example has differences of 2.30 against a threshold of 100%, so
    that areas are compared relative to something it does not name. ``smaller`` divides by the smaller area and is
    symmetric: 100% is twice as large. ``truth`` divides by the ground truth's, and then an instance that is too small
    never reaches 100%. ``image`` leaves shares of the image as they are.

    Args:
        pairs: what both images of F failures show, with the area of every instance.
        relative_to: ``smaller``, ``truth`` or ``image``.
        threshold: the smallest difference that counts; None for the sum of differences.

    Returns:
        (F,) values from 0, at most 1 with a threshold; NaN where no concept is common.

    Raises:
        DataError: an area of a common concept is unknown or not above 0.
        UnknownName: no such way to compare.

    References:
        Lymperaiou et al., 2022, section 4.1.

    Example:
        >>> truth, retrieved = {"dog": np.array([0.1, 0.3]), "sky": np.array([0.5])}, {"dog": np.array([0.35, 0.5])}
        >>> pair = ConceptPairs(np.array([1]), [truth], [retrieved])
        >>> size_disagreement(pair).tolist(), size_disagreement(pair, threshold=None).round(3).tolist()
        ([0.5], [1.583])
    """
    if relative_to not in RELATIVE_TO:
        raise UnknownName("way to compare areas", relative_to, RELATIVE_TO)
    values = np.full(len(pairs), np.nan)
    for row, (truth, shown) in enumerate(zip(pairs.truths, pairs.retrieved, strict=True)):
        common = sorted(truth.keys() & shown.keys())
        if not common:
            continue
        for name in common:
            if not (truth[name].size and shown[name].size and (truth[name] > 0).all() and (shown[name] > 0).all()):
                raise DataError(
                    f"query {pairs.query_ids[row]}: {name} has an instance without an area above 0; sizes need the "
                    "boxes of every instance, as instances_val2014.json has them"
                )
        matched = [match_sizes(truth[name], shown[name], relative_to) for name in common]
        if threshold is None:
            values[row] = sum(float(differences.mean()) for differences in matched)
        else:
            values[row] = float((np.concatenate(matched) >= threshold).mean())
    return values


def match_sizes(truth: FloatArray, retrieved: FloatArray, relative_to: str) -> FloatArray:
    """(min(G, R),) area differences of the matching of G and R instances whose sum is smallest."""
    left, right = truth[:, None], retrieved[None, :]
    differences = np.abs(left - right)
    if relative_to == "truth":
        differences = differences / left
    elif relative_to == "smaller":
        differences = differences / np.minimum(left, right)
    return np.asarray(differences[linear_sum_assignment(differences)])


SPEC = Spec(
    function=size_disagreement,
    title="SD",
    long_title="Size disagreement",
    needs="concepts",
    citation="Lymperaiou et al., 2022, arXiv:2209.03723",
    higher_is_better=False,
)
