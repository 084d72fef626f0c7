"""Where a product's score must lie, known before the product is computed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.ranking.blocks import workers
from cxc_eccv.ranking.kernels import pair_products
from cxc_eccv.types import IntArray

__all__ = ["brackets", "refuse_extremes"]

PAIRS_AT_ONCE = 4096
LEAST = float(np.finfo(np.float32).smallest_subnormal)
LARGEST = float(np.finfo(np.float32).max) / 2
SMALLEST = 2.0**-102
"""The smallest normal float32 with all its 24 digits."""


def brackets(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Bounds on the score that any float32 matrix product gives a pair: ``low <= score <= high``.

    A float32 dot product of D terms, summed in any order, with or without fused multiply-add, errs by at most
    gamma(u) * sum |x_i y_i| with gamma(u) = D u / (1 - D u) and u = 2**-24. The centre is such a product in float64,
    where u = 2**-53, doubled because the sum of absolute values errs as well; the bracket reaches as far as all this,
    and a little farther for products that underflow.

    Args:
        queries: (Q, D) float32.
        items: (N, D) float32.
        rows: (P,) indices into ``queries``.
        columns: (P,) indices into ``items``.

    Returns:
        (P,) low and (P,) high.

    References:
        Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1.

    Example:
        >>> one = np.array([[0.6, 0.8]], dtype=np.float32)
        >>> low, high = brackets(one, one, np.array([0]), np.array([0]))
        >>> bool(low[0] < 1 < high[0]), bool(high[0] - low[0] < 1e-6)
        (True, True)
    """
    centre, magnitude = np.empty((2, rows.size))

    def multiply(start: int) -> None:
        part = slice(start, start + PAIRS_AT_ONCE)
        centre[part], magnitude[part] = pair_products(queries, items, rows[part], columns[part])

    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(multiply, range(0, rows.size, PAIRS_AT_ONCE)))
    reach = magnitude * sum(_relative_error(queries.shape[1], unit) for unit in (2.0**-24, 2.0**-52))
    reach += queries.shape[1] * LEAST  # a product below the normal numbers errs by half of the least one
    low = np.nextafter((centre - reach).astype(np.float32), np.float32(-np.inf))
    return low, np.nextafter((centre + reach).astype(np.float32), np.float32(np.inf))


def _relative_error(n_terms: int, unit: float) -> float:
    return n_terms * unit / (1 - n_terms * unit)


def refuse_extremes(
    queries: NDArray[np.float32], items: NDArray[np.float32], query_ids: IntArray, item_ids: IntArray
) -> None:
    """Refuse vectors so long that a product may not fit float32, or so short that it may vanish; zero ones may stay.

    Args:
        queries: (Q, D) float32.
        items: (N, D) float32.
        query_ids: (Q,) ids, for messages.
        item_ids: (N,) likewise.

    Raises:
        MalformedRun: the longest query times the longest item is beyond float32, or the shortest times the shortest
            below what float32 holds with all its digits.

    Example:
        >>> ids = np.array([5])
        >>> refuse_extremes(np.full((1, 2), 1e20, np.float32), np.full((1, 2), 1e20, np.float32), ids, ids)
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: dot products reach 2e+40 (query 5 with item 5), beyond float32; multiply all \
vectors by one number to bring them near 1, or use cosine
    """
    (longest, shortest), (wide, narrow) = _extremes(queries), _extremes(items)
    for (row, length), (column, other) in ((longest, wide), (shortest, narrow)):
        product = length * other
        if product and not SMALLEST <= product <= LARGEST:
            extent = f"{'reach' if product > 1 else 'fall to'} {product:.0e}"
            raise MalformedRun(
                f"dot products {extent} (query {query_ids[row]} with item {item_ids[column]}), beyond float32; "
                "multiply all vectors by one number to bring them near 1, or use cosine"
            )


def _extremes(vectors: NDArray[np.float32]) -> list[tuple[int, float]]:
    """Row and Euclidean length, rounded up, of the longest vector and of the shortest one that is not zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)) * (1 + 1e-12)
    places = int(lengths.argmax()), int(np.where(lengths > 0, lengths, np.inf).argmin())
    return [(place, float(lengths[place])) for place in places]
