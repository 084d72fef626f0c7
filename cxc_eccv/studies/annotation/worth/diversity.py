"""Diversity of models: the agreement of their top lists, and the rank that one gives to another's first item."""

from __future__ import annotations

import numpy as np

from cxc_eccv.types import FloatArray, TopK

AT_ONCE = 4_096
"""Queries per batch."""


def correlate_tops(first: TopK, other: TopK) -> FloatArray:
    """(Q,) Kendall's tau-b of the orders of the items that both models have in their top K."""
    values = np.full(len(first.ids), np.nan)
    upper = np.triu_indices(first.depth, 1)
    for start in range(0, len(first.ids), AT_ONCE):
        strip = slice(start, start + AT_ONCE)
        same = first.ids[strip][:, :, None] == other.ids[strip][:, None, :]
        places, common = same.argmax(axis=2), same.any(axis=2)
        before, after = places[:, upper[0]], places[:, upper[1]]
        both = common[:, upper[0]] & common[:, upper[1]]
        agreed, pairs = (both & (before < after)).sum(axis=1), both.sum(axis=1)
        np.divide(2 * agreed - pairs, pairs, out=values[strip], where=pairs > 0)
    return values


def place_first(first: TopK, other: TopK) -> FloatArray:
    """(Q,) ranks from 1 of the first model's top item in another's list; NaN if it is below the top K."""
    matches = other.ids == first.ids[:, :1]
    return np.asarray(np.where(matches.any(axis=1), matches.argmax(axis=1) + 1.0, np.nan))
