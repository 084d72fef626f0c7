"""Agreement between annotators: the kappas of Cohen and Fleiss, Falotico and Quatto's, and Krippendorff's alpha."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import DataError
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["cohen_kappa", "count_answers", "fleiss_kappa", "krippendorff_alpha", "uniform_kappa"]


def count_answers(answers: ArrayLike, n_classes: int) -> IntArray:
    """(N, C) how many annotators gave each answer.

    Args:
        answers: (A, N) classes from 0, -1 where an annotator gave none.
        n_classes: C.

    Example:
        >>> count_answers([[0, 1], [0, -1]], 2).tolist()
        [[2, 0], [0, 1]]
    """
    given = _check_answers(answers, n_classes)
    return np.stack([(given == place).sum(axis=0) for place in range(n_classes)], axis=1)


def cohen_kappa(first: ArrayLike, second: ArrayLike, n_classes: int) -> float:
    r""":math:`(p_o - p_e) / (1 - p_e)` of two annotators, with chance from the shares of each.

    Args:
        first: (N,) classes from 0.
        second: (N,) those of the other annotator.
        n_classes: how many there are.

    Raises:
        DataError: no such classes, unequal lengths, or both gave one answer throughout, so that chance is certain.

    References:
        Cohen, A Coefficient of Agreement for Nominal Scales, 1960.

    Example:
        >>> cohen_kappa([0, 0, 1, 1], [0, 1, 1, 1], 2)
        0.5
    """
    given = _check_answers([first, second], n_classes)
    if (given < 0).any():
        raise DataError("Cohen's kappa needs an answer of both annotators for every item")
    shares = np.stack([np.bincount(own, minlength=n_classes) / own.size for own in given])
    return _above_chance(float((given[0] == given[1]).mean()), float(shares.prod(axis=0).sum()))


def fleiss_kappa(counts: ArrayLike) -> float:
    """Agreement above chance of several annotators, with chance from the shares of all answers.

    Args:
        counts: (N, C) how many annotators gave each answer; each item has two or more, not always as many. Items
            weigh the same.

    Raises:
        DataError: no whole counts, an item with fewer than two answers, or one answer throughout.

    References:
        Fleiss, Measuring Nominal Scale Agreement Among Many Raters, 1971.

    Example:
        >>> fleiss_kappa([[3, 0], [0, 3]])
        1.0
    """
    given = _check_counts(counts)
    return _above_chance(_agreement(given), float(((given / given.sum()).sum(axis=0) ** 2).sum()))


def uniform_kappa(counts: ArrayLike) -> float:
    """Falotico and Quatto's kappa, S: agreement above that of answers which are all as likely, 1 / C.

    It depends on the observed agreement alone and not on how the answers are spread over the classes, so that it does
    not fall where nearly all answers are the same (the paradox of Fleiss' kappa, whose average over all permutations
    of the classes within the items it is).

    Args:
        counts: as of :func:`fleiss_kappa`.

    Raises:
        DataError: no whole counts, or an item with fewer than two answers.

    References:
        Falotico and Quatto, Fleiss' Kappa Statistic without Paradoxes, Quality & Quantity 2015.

    Example:
        >>> uniform_kappa([[3, 0], [3, 0]])
        1.0
    """
    given = _check_counts(counts)
    return _above_chance(_agreement(given), 1 / given.shape[1])


def krippendorff_alpha(answers: ArrayLike, level: str = "nominal") -> float:
    """Krippendorff's alpha, for any number of annotators and missing answers.

    Args:
        answers: (A, N) numbers, NaN where an annotator gave none.
        level: of measurement: ``nominal``, ``ordinal``, ``interval`` or ``ratio``.

    Raises:
        DataError: fewer than two different answers, or no item with two.

    References:
        Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011. The computation is that of the package
        ``krippendorff``.
    """
    import krippendorff

    try:
        return float(krippendorff.alpha(np.asarray(answers, dtype=np.float64), level_of_measurement=level))
    except ValueError as error:
        raise DataError(f"Krippendorff's alpha has no value: {error}") from None


def _agreement(counts: FloatArray) -> float:
    """Mean over items of the share of pairs of annotators that agree."""
    per_item = counts.sum(axis=1)
    return float(((counts * (counts - 1)).sum(axis=1) / (per_item * (per_item - 1))).mean())


def _above_chance(observed: float, expected: float) -> float:
    if expected == 1:
        raise DataError("all answers are the same, so that chance alone gives them: no kappa has a value")
    return (observed - expected) / (1 - expected)


def _check_answers(answers: ArrayLike, n_classes: int) -> IntArray:
    try:
        given = np.asarray(answers)
    except ValueError:
        raise DataError("annotators with unequal numbers of items; give -1 where one gave no answer") from None
    if (
        given.ndim != 2
        or not given.size
        or given.dtype.kind not in "iu"
        or given.min() < -1
        or given.max() >= n_classes
    ):
        raise DataError(f"answers: give a row of classes from 0 to {n_classes - 1} for every annotator, -1 for none")
    return given.astype(np.int64)


def _check_counts(counts: ArrayLike) -> FloatArray:
    given = np.asarray(counts, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] < 2 or not len(given) or not ((given >= 0) & (given == np.round(given))).all():
        raise DataError("counts of answers: give whole numbers of at least 0, a row per item, a column per answer")
    if (given.sum(axis=1) < 2).any():
        row = int((given.sum(axis=1) < 2).argmax())
        raise DataError(f"item {row} has fewer than two answers: there is nothing to agree on; leave it out")
    return given
