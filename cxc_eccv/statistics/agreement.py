"""Agreement between annotators: the kappas of Cohen and Fleiss, Falotico and Quatto's, and Krippendorff's alpha."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import DataError
from cxc_eccv.types import FloatArray, IntArray

Level: TypeAlias = Literal["nominal", "interval"]
"""Of measurement: two values are the same or not, or have a difference."""


def count_answers(items: ArrayLike, answers: ArrayLike, n_classes: int) -> IntArray:
    """(N, C) how many annotators gave each answer, a class from 0, to each item, from 0."""
    places, given = np.asarray(items), _check_answers([np.asarray(answers)], n_classes)[0]
    counts = np.zeros((int(places.max()) + 1, n_classes), dtype=np.int64)
    np.add.at(counts, (places, given), 1)
    return counts


def cohen_kappa(first: ArrayLike, second: ArrayLike, n_classes: int) -> float:
    r""":math:`(p_o - p_e) / (1 - p_e)` of two annotators, with chance from the shares of each.

    Args:
        first: (N,) classes from 0.
        second: (N,) those of the other annotator.
        n_classes: how many there are.

    Raises:
        DataError: no such classes, unequal lengths, or both gave one answer throughout, so that chance is certain.

    References:
        Cohen, A Coefficient of Agreement for Nominal Scales, Educational and Psychological Measurement 1960.

    Example:
        >>> cohen_kappa([0, 0, 1, 1], [0, 1, 1, 1], 2)
        0.5
    """
    given = _check_answers([np.asarray(first), np.asarray(second)], n_classes)
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
    return _above_chance(share_of_agreement(given), float(((given.sum(axis=0) / given.sum()) ** 2).sum()))


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
    return _above_chance(share_of_agreement(given), 1 / given.shape[1])


def krippendorff_alpha(items: ArrayLike, values: ArrayLike, level: Level = "nominal") -> float:
    r"""Krippendorff's alpha, for any number of annotators and missing answers.

    With n answers in units of :math:`m_u \ge 2` answers it is

    .. math:: 1 - (n - 1) \frac{\sum_u \sum_{i<j \in u} d(v_i, v_j) / (m_u - 1)}{\sum_{i<j} d(v_i, v_j)}

    where d is the squared difference of two numbers, or 1 for two unlike names.

    Args:
        items: (A,) unit of each answer, from 0.
        values: (A,) numbers.
        level: of measurement: ``nominal`` or ``interval``.

    Raises:
        DataError: fewer than two different answers, or no unit with two.

    References:
        Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011.

    Example:
        >>> krippendorff_alpha([0, 0, 1, 1], [1.0, 2.0, 4.0, 4.0], "interval")
        0.8888888888888888
    """
    units, given = np.asarray(items, dtype=np.int64), np.asarray(values, dtype=np.float64)
    pairable = np.bincount(units)[units] > 1
    units, given = np.unique(units[pairable], return_inverse=True)[1], given[pairable]
    domain, codes = np.unique(given, return_inverse=True)
    if domain.size < 2:
        found = "all answers are the same" if domain.size else "no item has two answers"
        raise DataError(f"{found}: Krippendorff's alpha has no value")
    sizes = np.bincount(units)
    if level == "interval":
        centred = given - given.mean()
        # The squares of all differences within a unit come to m times the squares less the square of the sum.
        within = sizes * np.bincount(units, centred**2) - np.bincount(units, centred) ** 2
        total = given.size * float((centred**2).sum())
    else:
        within = sizes**2 - (count_answers(units, codes, domain.size) ** 2).sum(axis=1)
        total = float(given.size**2 - (np.bincount(codes) ** 2).sum())
    return 1 - (given.size - 1) * float((within / (sizes - 1)).sum()) / total


def share_of_agreement(counts: ArrayLike) -> float:
    """Mean over items of the share of pairs of annotators that agree; counts as of :func:`fleiss_kappa`."""
    given = _check_counts(counts)
    per_item = given.sum(axis=1)
    return float(((given * (given - 1)).sum(axis=1) / (per_item * (per_item - 1))).mean())


def _above_chance(observed: float, expected: float) -> float:
    if expected == 1:
        raise DataError("all answers are the same, so that chance alone gives them: no kappa has a value")
    return (observed - expected) / (1 - expected)


def _check_answers(answers: ArrayLike, n_classes: int) -> IntArray:
    try:
        given = np.asarray(answers)
    except ValueError:
        raise DataError("annotators with unequal numbers of items; give an answer of both for every item") from None
    whole = given.ndim == 2 and given.size and given.dtype.kind in "iu"
    if not whole or given.min() < 0 or given.max() >= n_classes:
        raise DataError(f"answers: give a row of classes from 0 to {n_classes - 1} for every annotator")
    return given.astype(np.int64)


def _check_counts(counts: ArrayLike) -> FloatArray:
    given = np.asarray(counts, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] < 2 or not len(given) or not ((given >= 0) & (given == np.round(given))).all():
        raise DataError("counts of answers: give whole numbers of at least 0, a row per item, a column per answer")
    if (given.sum(axis=1) < 2).any():
        row = int((given.sum(axis=1) < 2).argmax())
        raise DataError(f"item {row} has fewer than two answers: there is nothing to agree on; leave it out")
    return given
