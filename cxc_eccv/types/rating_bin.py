"""RatingBin: the similarities of the pairs whose ratings are in one range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from cxc_eccv.types.ids import FloatArray
from cxc_eccv.types.strict_json import COUNT, LARGEST_COUNT, Kind

FILLED = Kind(lambda value: COUNT.holds(value) and value > 0, "a whole number of at least 1")


@dataclass(frozen=True, slots=True)
class RatingBin:
    """The similarities of the pairs whose ratings are in one range.

    Attributes:
        rating_from, rating_to: the range; its upper end belongs to the next one, but for the last.
        n_pairs: number of pairs, at least 1.
        first_quartile, median, third_quartile: of their similarities, interpolated between neighbours.
    """

    rating_from: float
    rating_to: float
    n_pairs: Annotated[int, FILLED]
    first_quartile: float
    median: float
    third_quartile: float


def bin_similarities(ratings: FloatArray, similarities: FloatArray, edges: Sequence[float]) -> tuple[RatingBin, ...]:
    """The similarities by rating, without bins that hold no pair; none if a similarity cannot be shown.

    Args:
        ratings: (P,) ratings; those outside the edges are in no bin.
        similarities: (P,) the similarity of each pair.
        edges: the ends of the bins, in ascending order.

    Example:
        >>> bins = bin_similarities(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.2, 0.4]), (0.0, 1.0, 2.0))
        >>> [(each.rating_from, each.n_pairs, round(each.median, 2)) for each in bins]
        [(0.0, 1, 0.1), (1.0, 2, 0.3)]
    """
    if not np.all(np.abs(similarities) < LARGEST_COUNT):
        return ()
    last = len(edges) - 2
    bins = []
    for number in range(last + 1):
        low = edges[number]
        high = edges[number + 1]
        is_inside = (ratings >= low) & ((ratings < high) | ((number == last) & (ratings == high)))
        values = similarities[is_inside]
        if values.size:
            first, median, third = np.quantile(values.astype(np.float64), (0.25, 0.5, 0.75)).tolist()
            bins.append(RatingBin(float(low), float(high), values.size, first, median, third))
    return tuple(bins)
