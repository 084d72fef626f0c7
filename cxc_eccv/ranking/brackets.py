"""Where a product's score must lie, known before the product is computed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.ranking.blocks import workers
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["brackets", "refuse_overflow"]

PAIRS_AT_ONCE = 4096
ROUNDING = 2.0**-24


def brackets(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Bounds on the score that any float32 matrix product gives a pair: ``low <= score < high``.

    A float32 dot product of D terms, summed in any order, with or without fused multiply-add, errs by at most
    gamma * |x| |y| with gamma = D u / (1 - D u) and u = 2**-24. The centre is such a product itself, so the bracket
    reaches 2 gamma |x| |y| to either side.

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
    centre = np.empty(rows.size, dtype=np.float64)

    def product(start: int) -> None:
        part = slice(start, start + PAIRS_AT_ONCE)
        centre[part] = np.einsum("ij,ij->i", queries[rows[part]], items[columns[part]])

    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(product, range(0, rows.size, PAIRS_AT_ONCE)))
    terms = queries.shape[1] * ROUNDING
    reach = 2 * terms / (1 - terms) * _lengths(queries)[rows] * _lengths(items)[columns]
    low = np.nextafter((centre - reach).astype(np.float32), np.float32(-np.inf))
    return low, np.nextafter((centre + reach).astype(np.float32), np.float32(np.inf))


def refuse_overflow(queries: NDArray[np.float32], items: NDArray[np.float32]) -> None:
    """Refuse vectors so long that a product may not fit float32.

    Raises:
        MalformedRun: the longest query times the longest item is beyond float32.

    Example:
        >>> refuse_overflow(np.full((1, 2), 1e20, np.float32), np.full((1, 2), 1e20, np.float32))
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: dot products reach 2e+40, beyond float32; scale the vectors, or use cosine
    """
    largest = float(_lengths(queries).max() * _lengths(items).max())
    if largest > float(np.finfo(np.float32).max) / 2:
        raise MalformedRun(f"dot products reach {largest:.0e}, beyond float32; scale the vectors, or use cosine")


def _lengths(vectors: NDArray[np.float32]) -> FloatArray:
    """(N,) Euclidean lengths, rounded up."""
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return np.asarray(np.sqrt(squares) * (1 + 1e-12))
