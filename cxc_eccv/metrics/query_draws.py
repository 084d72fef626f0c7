"""The random draws of the CxC bootstrap: half of the queries, one rated item each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.types import IntArray, RatedPairs

__all__ = ["query_draws"]

FEWEST_QUERIES = 4
FEWEST_SAMPLES = 2


def query_draws(pairs: RatedPairs, n_samples: int = 1000, seed: int = 0) -> Iterator[IntArray]:
    """Rows of the rated pairs that each sample correlates.

    A sample takes half of the queries (rounded down) without replacement and, uniformly, one of each query's rows.
    The draws depend on the seed and the set of pairs, not on the order of the rows.

    Args:
        pairs: P rated pairs of Q queries.
        n_samples: number of samples, at least 2.
        seed: of numpy's PCG64 generator, at least 0.

    Returns:
        An iterator over ``n_samples`` arrays (Q // 2,) of row positions.

    Raises:
        DataError: fewer than 4 queries.
        InvalidOption: ``n_samples`` or ``seed`` is not a whole number, or too small.

    Example:
        >>> pairs = RatedPairs(np.array([1, 1, 2, 3, 4]), np.array([7, 8, 9, 9, 7]), np.zeros(5))
        >>> [rows.size for rows in query_draws(pairs, n_samples=3)]
        [2, 2, 2]
    """
    _check_whole("n_samples", n_samples, FEWEST_SAMPLES)
    _check_whole("seed", seed, 0)
    n_queries = np.unique(pairs.query_ids).size
    if n_queries < FEWEST_QUERIES:
        raise DataError(f"rated pairs of {n_queries} queries: a bootstrap over half of them needs {FEWEST_QUERIES}")
    return _draws(pairs, n_samples, np.random.Generator(np.random.PCG64(seed)))


def _draws(pairs: RatedPairs, n_samples: int, random: np.random.Generator) -> Iterator[IntArray]:
    by_query = np.lexsort((pairs.ratings, pairs.item_ids, pairs.query_ids))
    sizes = np.unique(pairs.query_ids, return_counts=True)[1]
    starts = np.cumsum(sizes) - sizes
    half = sizes.size // 2
    for _ in range(n_samples):
        queries = random.choice(sizes.size, half, replace=False, shuffle=False)
        items = (random.random(half) * sizes.take(queries)).astype(np.int64)
        yield by_query.take(starts.take(queries) + items)


def _check_whole(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidOption(f"{name} is {value!r}, expected a whole number of at least {least}")
