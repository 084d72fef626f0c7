"""Where a product's score must lie, known before the product is computed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.kernels import pair_products
from cxc_eccv.ranking.scan import workers
from cxc_eccv.types import IntArray

__all__ = ["brackets"]

PAIRS_AT_ONCE = 4096


def brackets(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Bounds on the score that any float32 matrix product gives a pair: ``low <= score <= high``.

    A float32 dot product of D terms, summed in any order, with or without fused multiply-add, errs by at most
    gamma(u) * sum |x_i y_i| with gamma(u) = D u / (1 - D u) and u = 2**-24. The centre is such a product in float64,
    where u = 2**-53, doubled because the sum of absolute values errs as well; the bracket reaches as far as all this.

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
    low = np.nextafter((centre - reach).astype(np.float32), np.float32(-np.inf))
    return low, np.nextafter((centre + reach).astype(np.float32), np.float32(np.inf))


def _relative_error(n_terms: int, unit: float) -> float:
    return n_terms * unit / (1 - n_terms * unit)
