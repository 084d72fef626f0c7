"""Agreement of annotators (kappas, Krippendorff's alpha), and of orders (Kendall's tau-b)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.types import FloatArray, IntArray

Level: TypeAlias = Literal["nominal", "interval"]
"""Level of measurement: values are equal or not (nominal), or have a difference (interval)."""


def count_answers(items: ArrayLike, answers: ArrayLike, n_classes: int) -> IntArray:
    """(N, C) number of annotators that gave each item, counted from 0, each answer, a class from 0."""
    places = np.asarray(items)
    classes = np.asarray(answers)
    counts = np.zeros((int(places.max()) + 1, n_classes), dtype=np.int64)
    np.add.at(counts, (places, classes), 1)
    return counts


def cohen_kappa(first: ArrayLike, second: ArrayLike, n_classes: int) -> float:
    r"""Cohen's kappa of two annotators: :math:`(p_o - p_e) / (1 - p_e)`, with chance from the shares of each.

    Args:
        first: (N,) classes from 0.
        second: (N,) classes of the other annotator.
        n_classes: number of classes.

    Raises:
        DataError: all answers are the same, so that kappa is undefined.

    References:
        Cohen, A Coefficient of Agreement for Nominal Scales, Educational and Psychological Measurement 1960.

    Example:
        >>> cohen_kappa([0, 0, 1, 1], [0, 1, 1, 1], 2)
        0.5
    """
    answers = np.stack([np.asarray(first), np.asarray(second)])
    shares = np.stack([np.bincount(classes, minlength=n_classes) for classes in answers]) / answers.shape[1]
    agreed = float(np.mean(answers[0] == answers[1]))
    return _above_chance(agreed, float(shares.prod(axis=0).sum()))


def uniform_kappa(counts: ArrayLike) -> float:
    """Falotico and Quatto's kappa, S: agreement above that of uniformly random answers, 1 / C.

    It depends only on the observed agreement, not on the shares of the classes, so it does not fall when nearly all
    answers are the same (the paradox of Fleiss' kappa). It is the average of Fleiss' kappa over all permutations of the
    classes within items.

    Args:
        counts: (N, C) number of annotators that gave each item each answer, at least two for every item.

    References:
        Falotico and Quatto, Fleiss' Kappa Statistic without Paradoxes, Quality & Quantity 2015.

    Example:
        >>> uniform_kappa([[3, 0], [3, 0]])
        1.0
    """
    return _above_chance(share_of_agreement(counts), 1 / np.shape(counts)[1])


def krippendorff_alpha(items: ArrayLike, values: ArrayLike, level: Level = "nominal") -> float:
    r"""Krippendorff's alpha, for any number of annotators and missing answers.

    With n answers in units of :math:`m_u \ge 2` answers it is

    .. math:: 1 - (n - 1) \frac{\sum_u \sum_{i<j \in u} d(v_i, v_j) / (m_u - 1)}{\sum_{i<j} d(v_i, v_j)}

    where d is the squared difference of two numbers (interval), or 1 for two different names (nominal).

    Args:
        items: (A,) unit of each answer, from 0.
        values: (A,) answers.
        level: level of measurement, ``nominal`` or ``interval``.

    Raises:
        DataError: all answers are the same, or no unit has two.

    References:
        Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011.

    Example:
        >>> krippendorff_alpha([0, 0, 1, 1], [1.0, 2.0, 4.0, 4.0], "interval")
        0.8888888888888888
    """
    units = np.asarray(items, dtype=np.int64)
    answers = np.asarray(values, dtype=np.float64)
    pairable = np.bincount(units)[units] > 1
    units = np.unique(units[pairable], return_inverse=True)[1]
    answers = answers[pairable]
    domain, codes = np.unique(answers, return_inverse=True)
    if domain.size < 2:
        reason = "all answers are the same" if domain.size else "no item has two answers"
        raise DataError(f"Krippendorff's alpha is undefined: {reason}")
    sizes = np.bincount(units)
    if level == "interval":
        centred = answers - answers.mean()
        # The sum of squared differences within a unit is m times the sum of squares, less the square of the sum.
        within = sizes * np.bincount(units, centred**2) - np.bincount(units, centred) ** 2
        total = answers.size * float((centred**2).sum())
    else:
        within = sizes**2 - (count_answers(units, codes, domain.size) ** 2).sum(axis=1)
        total = float(answers.size**2 - (np.bincount(codes) ** 2).sum())
    return 1 - (answers.size - 1) * float((within / (sizes - 1)).sum()) / total


def share_of_agreement(counts: ArrayLike) -> float:
    """Mean over items of the share of pairs of annotators that agree; counts as in :func:`uniform_kappa`."""
    checked = np.asarray(counts, dtype=np.float64)
    per_item = checked.sum(axis=1)
    return float(((checked * (checked - 1)).sum(axis=1) / (per_item * (per_item - 1))).mean())


SignArray: TypeAlias = NDArray[np.int8]
GUARD_DIGITS = 9
"""Decimals of scores, so that equal means are equal as floats."""


def order_signs(scores: FloatArray) -> SignArray:
    """(P, S) signs of the difference of each two of N items, from their (N, S) scores; 0 where they tie."""
    rounded = np.round(scores, GUARD_DIGITS)
    first, second = np.triu_indices(len(rounded), 1)
    signs: SignArray = (rounded[first] > rounded[second]).astype(np.int8)
    signs -= rounded[first] < rounded[second]
    return signs


def tau_b(signs: SignArray, others: SignArray) -> FloatArray:
    r"""(S,) Kendall's tau-b of two orders of the same items, NaN where all items tie in one.

    It is :math:`(C - D) / \sqrt{(P - T_1) (P - T_2)}` with C concordant and D discordant of all P pairs of items, and
    :math:`T_1` and :math:`T_2` the pairs that tie in each order.

    Args:
        signs: (P, S) as of :func:`order_signs`.
        others: those of the other order.

    References:
        Kendall, The treatment of ties in ranking problems, Biometrika 1945.

    Example:
        >>> scores = np.array([[1.0], [2.0], [3.0]])
        >>> tau_b(order_signs(scores), order_signs(scores[[0, 2, 1]])).round(4).tolist()
        [0.3333]
    """
    untied = np.count_nonzero(signs, axis=0) * np.count_nonzero(others, axis=0)
    concordant = (signs * others).sum(axis=0, dtype=np.int64)
    tau: FloatArray = np.divide(concordant, np.sqrt(untied), out=np.full(untied.shape, np.nan), where=untied > 0)
    return tau


def _above_chance(observed: float, expected: float) -> float:
    if expected == 1:
        raise DataError("kappa is undefined: all answers are the same")
    return (observed - expected) / (1 - expected)
