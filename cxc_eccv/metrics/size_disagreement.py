"""Size disagreement, SD."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.metrics.kinds import FailureMetric
from cxc_eccv.types import FloatArray
from cxc_eccv.types.concept_pairs import ConceptPairs

RELATIVE_TO = ("truth", "smaller", "image")
"""What an area difference is divided by: the instance of the ground truth, the smaller of the two, or the image."""

EQUAL_SUMS = 1e-9
"""Sums that differ by less are equal; the order of addition may change them this much."""


def size_disagreement(pairs: ConceptPairs, relative_to: str = "smaller", threshold: float | None = 1.0) -> FloatArray:
    """Difference in size between instances of the concepts that both images show.

    The instances of each common concept are matched one to one so that the sum of their area differences D_A is
    smallest; of equal sums, the matching with the fewest D_A >= threshold is taken. With a threshold (as in the paper's
    tables) the value is the share of matches with D_A >= threshold. Without one it is the paper's sum over common
    concepts of the mean D_A.

    The paper defines D_A = |A_g - A_r|, but its example has a difference of 230%, relative to an area it does not name.
    "smaller" divides by the smaller area and is symmetric: 100% is twice as large. "truth" divides by the ground
    truth's area, so an instance that is too small never reaches 100%. "image" does not divide the shares of the image,
    which never reach 100%.

    Args:
        pairs: concepts of both images of F failures, with the area of every instance.
        relative_to: what area differences are divided by: "smaller", "truth" or "image".
        threshold: the smallest difference that counts, above 0; None for the sum of differences.

    Returns:
        (F,) values from 0, at most 1 with a threshold; NaN where no concept is common.

    Raises:
        DataError: a concept has no instances, or an instance has no area.
        UnknownName: ``relative_to`` is unknown.
        InvalidOption: the threshold is not above 0.

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
    check_threshold(threshold)
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


def check_threshold(threshold: float | None) -> None:
    """Raise InvalidOption for a threshold that is not above 0."""
    if threshold is not None and not threshold > 0:
        raise InvalidOption(f"threshold is {threshold}; give a number above 0, or None for the sum of differences")


def match_sizes(
    truth: FloatArray, retrieved: FloatArray, relative_to: str = "smaller", threshold: float | None = 1.0
) -> FloatArray:
    """(min(G, R),) area differences of the matching of G and R instances with the smallest sum."""
    from scipy.optimize import linear_sum_assignment  # not at the top: every command imports all metrics

    left = truth[:, None]
    right = retrieved[None, :]
    differences = np.abs(left - right)
    if relative_to == "truth":
        differences /= left
    elif relative_to == "smaller":
        differences /= np.minimum(left, right)
    if differences.size == 1:  # by far the most frequent case
        return np.asarray(differences[0])
    reached = 0.0 if threshold is None else EQUAL_SUMS * (differences >= threshold)
    return np.asarray(differences[linear_sum_assignment(differences + reached)])


SPEC = FailureMetric(
    size_disagreement,
    "SD",
    long_title="Size disagreement",
    of_areas=True,
    citation="Lymperaiou et al., COLING 2022, arXiv:2209.03723",
    higher_is_better=False,
    packages=("scipy",),
)
