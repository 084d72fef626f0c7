"""Size disagreement, SD."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray
from cxc_eccv.types.seen import ConceptPairs

RELATIVE_TO = ("truth", "smaller", "image")
"""What a difference of areas is a share of: the instance in the ground truth, the smaller of the two, or the image."""

TIE = 1e-9
"""Sums that differ by less are equal: the same areas, added in another order."""


def size_disagreement(pairs: ConceptPairs, relative_to: str = "smaller", threshold: float | None = 1.0) -> FloatArray:
    """How far the instances of common concepts differ in size, at the best matching.

    The instances of each common concept are matched one to one so that their area differences D_A have the smallest
    sum. With a threshold T_D (binary, as in the paper's tables) the value is the share of all matches with D_A >= T_D.
    Of several such matchings it is the one with the fewest of these, as the paper means to be optimistic. Without a
    threshold it is the paper's sum over common concepts of the mean D_A, which has no upper bound.

    The paper defines D_A = |A_g - A_r|, but its example has differences of 2.30 against a threshold of 100%, so that
    areas are compared relative to something it does not name. "smaller" divides by the smaller area and is symmetric:
    100% is twice as large. "truth" divides by the ground truth's, and then an instance that is too small never reaches
    100%. "image" leaves shares of the image as they are, which never reach 100%.

    Args:
        pairs: what both images of F failures show, with the area of every instance.
        relative_to: "smaller", "truth" or "image": what a difference of areas is a share of.
        threshold: the smallest difference that counts, above 0; None for the sum of differences.

    Returns:
        (F,) values from 0, at most 1 with a threshold; NaN where no concept is common.

    Raises:
        DataError: a concept comes without instances, or one of them without its area.
        UnknownName: no such way to compare.
        InvalidOption: a threshold that every match would reach.

    References:
        Lymperaiou et al., COLING 2022, section 4.1.

    Example:
        >>> truth, retrieved = {"dog": np.array([0.1, 0.3]), "sky": np.array([0.5])}, {"dog": np.array([0.35, 0.5])}
        >>> pair = ConceptPairs(np.array([1]), [truth], [retrieved])
        >>> size_disagreement(pair).tolist(), size_disagreement(pair, threshold=None).round(3).tolist()
        ([0.5], [1.583])
    """
    if relative_to not in RELATIVE_TO:
        raise UnknownName("way to compare areas", relative_to, RELATIVE_TO)
    if threshold is not None and not threshold > 0:
        raise InvalidOption(f"threshold is {threshold}; give a number above 0, or None for the sum of differences")
    pairs.refuse_uncounted("size disagreement", sized=True)
    values = np.full(len(pairs), np.nan)
    for row, (truth, shown) in enumerate(zip(pairs.truths, pairs.retrieved, strict=True)):
        if common := sorted(truth.keys() & shown.keys()):
            matched = [match_sizes(truth[name], shown[name], relative_to, threshold) for name in common]
            if threshold is None:
                values[row] = sum(float(differences.mean()) for differences in matched)
            else:
                values[row] = (np.concatenate(matched) >= threshold).mean()
    return values


def match_sizes(
    truth: FloatArray, retrieved: FloatArray, relative_to: str = "smaller", threshold: float | None = 1.0
) -> FloatArray:
    """(min(G, R),) area differences of the matching of G and R instances whose sum is smallest."""
    from scipy.optimize import linear_sum_assignment  # not at the top: every command imports all metrics

    left, right = truth[:, None], retrieved[None, :]
    differences = np.abs(left - right)
    if relative_to == "truth":
        differences /= left
    elif relative_to == "smaller":
        differences /= np.minimum(left, right)
    if differences.size == 1:  # most concepts, by far
        return np.asarray(differences[0])
    reached = 0.0 if threshold is None else TIE * (differences >= threshold)
    return np.asarray(differences[linear_sum_assignment(differences + reached)])


SPEC = Spec(
    function=size_disagreement,
    title="SD",
    long_title="Size disagreement",
    needs="concept_sizes",
    citation="Lymperaiou et al., COLING 2022, arXiv:2209.03723",
    higher_is_better=False,
)
