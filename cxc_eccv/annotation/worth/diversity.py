"""How differently models rank: the agreement of their top lists, and where one places another's first."""

from __future__ import annotations

import numpy as np
from scipy.stats import kendalltau

from cxc_eccv.errors import DataError
from cxc_eccv.types import FloatArray, TopK

__all__ = ["correlate_tops", "place_first"]


def correlate_tops(one: TopK, other: TopK) -> FloatArray:
    """Kendall's tau-b of the orders in which two models have the items that both have in their top K.

    The paper says no more than "two ranked lists"; its values near 0 rule out that items of one list alone count, as
    these would agree in nothing.

    Args:
        one: the top K of Q queries.
        other: of the same queries in the same order, and of the same depth.

    Returns:
        (Q,) values in [-1, 1]; NaN where fewer than two items are common.

    Raises:
        DataError: other queries, or lists of another depth.

    References:
        Chun et al., ECCV Caption, ECCV 2022, appendix A.2, Table A.1 (a).

    Example:
        >>> first = TopK(np.array([7]), np.array([[1, 2, 3]]))
        >>> correlate_tops(first, TopK(np.array([7]), np.array([[3, 1, 9]]))).tolist()
        [-1.0]
    """
    _check_alike(one, other)
    values = np.full(len(one.ids), np.nan)
    for query, (left, right) in enumerate(zip(one.ids, other.ids, strict=True)):
        _, first, second = np.intersect1d(left, right, assume_unique=True, return_indices=True)
        if first.size > 1:
            values[query] = kendalltau(first, second).statistic
    return values


def place_first(one: TopK, other: TopK) -> FloatArray:
    """The rank that another model gives to the item that one has first.

    Args:
        one: the top K of Q queries.
        other: of the same queries in the same order, and of the same depth.

    Returns:
        (Q,) ranks from 1; NaN where the other has it below its top K, so that its rank is not known.

    Raises:
        DataError: other queries, or lists of another depth.

    References:
        Chun et al., ECCV Caption, ECCV 2022, appendix A.2, Table A.1 (b).

    Example:
        >>> first = TopK(np.array([7]), np.array([[1, 2, 3]]))
        >>> place_first(first, TopK(np.array([7]), np.array([[3, 1, 9]]))).tolist()
        [2.0]
    """
    _check_alike(one, other)
    found = other.ids == one.ids[:, :1]
    return np.asarray(np.where(found.any(axis=1), found.argmax(axis=1) + 1.0, np.nan))


def _check_alike(one: TopK, other: TopK) -> None:
    if one.ids.shape != other.ids.shape or (one.query_ids != other.query_ids).any():
        raise DataError(
            f"lists of shapes {one.ids.shape} and {other.ids.shape}: give the same queries in one order, and one depth"
        )
