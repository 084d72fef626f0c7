"""Graded pairs for correlation, with the query side that each kind has in the CxC paper."""

from __future__ import annotations

import numpy as np

from cxc_eccv.sources.library import Library
from cxc_eccv.types import RatedPairs

__all__ = ["rated_pairs"]


def rated_pairs(library: Library, split: str, kind: str) -> RatedPairs:
    """All pairs rated with each query, in both orders.

    Queries are captions for STS, images for SIS and for SITS: the published standard deviations of the bootstrap
    follow 12,500 sampled queries for STS and 2,500 for the other two.

    Args:
        library: the raw sources.
        split: ``validation`` or ``test``.
        kind: ``sts``, ``sis`` or ``sits``.

    Example:
        >>> pairs = rated_pairs(Library("sample"), "test", "sts")
        >>> pairs.ratings.size == 2 * Library("sample").cxc("sts", "test").num_rows
        True
    """
    table = library.cxc(kind, split)
    left, right, ratings = (np.asarray(table[name]) for name in ("left_id", "right_id", "rating"))
    if kind == "sits":
        return RatedPairs(right, left, ratings)
    return RatedPairs(np.concatenate([left, right]), np.concatenate([right, left]), np.concatenate([ratings, ratings]))
