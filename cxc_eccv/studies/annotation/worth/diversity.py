"""How differently models rank: the agreement of their top lists, and where one places another's first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray, IntArray, TopK

AT_ONCE = 4_096
"""Queries whose pairs of items are in memory together."""


def correlate_tops(one: TopK, other: TopK) -> FloatArray:
    """(Q,) Kendall's tau-b of the orders in which two models have the items that both have in their top K."""
    values = np.full(len(one.ids), np.nan)
    upper = np.triu_indices(one.depth, 1)
    for start in range(0, len(one.ids), AT_ONCE):
        strip = slice(start, start + AT_ONCE)
        places, common = _find_places(one.ids[strip], other.ids[strip])
        before, after = places[:, upper[0]], places[:, upper[1]]
        both = common[:, upper[0]] & common[:, upper[1]]
        agreed, pairs = (both & (before < after)).sum(axis=1), both.sum(axis=1)
        np.divide(2 * agreed - pairs, pairs, out=values[strip], where=pairs > 0)
    return values


def _find_places(left: IntArray, right: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """(Q, K) place of each left item among the right ones, and whether it is there."""
    same = left[:, :, None] == right[:, None, :]
    return same.argmax(axis=2), same.any(axis=2)


def place_first(one: TopK, other: TopK) -> FloatArray:
    """(Q,) ranks from 1 that another model gives to the item that one has first; NaN where it is below its top K."""
    found = other.ids == one.ids[:, :1]
    return np.asarray(np.where(found.any(axis=1), found.argmax(axis=1) + 1.0, np.nan))
