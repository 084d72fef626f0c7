"""Spearman's rank correlation by counting, over all pairs or over drawn ones: values become integer codes once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import CxcEccvError, DataError, MalformedRun
from cxc_eccv.types import FloatArray, IntArray, RatedPairs, check_whole

__all__ = ["CodedPairs", "centred_ranks", "query_draws"]

SAME_ROWS = "one row per rated pair, in the same order"


def centred_ranks(codes: IntArray, n_levels: int) -> FloatArray:
    """Twice the average ranks, less their mean: whole numbers that sum to zero.

    With ``below`` smaller and ``upto`` smaller or equal entries, the average rank of an entry among n is
    (below + upto + 1) / 2; doubled, and less n + 1, that is below + upto - n. No sorting.

    Args:
        codes: (n,) from 0 to ``n_levels - 1``, ordered as the values they stand for.
        n_levels: number of codes.

    Returns:
        (n,) whole numbers between -(n - 1) and n - 1.

    Example:
        >>> centred_ranks(np.array([2, 0, 2]), 3).tolist()
        [1.0, -2.0, 1.0]
    """
    following = codes + 1
    below = np.bincount(following, minlength=n_levels + 1).cumsum()
    doubled = below.take(codes) + below.take(following)
    return np.asarray(doubled - codes.size, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class CodedPairs:
    """Ratings and similarities of P rated pairs as dense integer codes; equal codes are ties.

    Attributes:
        rating_codes, similarity_codes: (P,) codes from 0.
        n_ratings, n_similarities: number of distinct values, at least 2.
    """

    rating_codes: IntArray
    similarity_codes: IntArray
    n_ratings: int
    n_similarities: int

    @classmethod
    def of(cls, pairs: RatedPairs, similarities: FloatArray) -> CodedPairs:
        """Check and code.

        Args:
            pairs: the rated pairs.
            similarities: (P,) similarity of each, any real type.

        Raises:
            DataError: the ratings are all equal, not finite, or not one per pair.
            MalformedRun: the same for the similarities.

        Example:
            >>> pairs = RatedPairs(np.array([1, 1, 2]), np.array([7, 8, 7]), np.array([5.0, 0.5, 0.5]))
            >>> CodedPairs.of(pairs, np.array([0.9, 0.1, 0.3])).similarity_codes.tolist()
            [2, 0, 1]
        """
        shape = pairs.query_ids.shape
        if pairs.item_ids.shape != shape:
            raise DataError(f"query_ids {shape} and item_ids {pairs.item_ids.shape}: need {SAME_ROWS}")
        ratings, n_ratings = _codes(pairs.ratings, shape, "ratings", DataError)
        scores, n_scores = _codes(similarities, shape, "similarities", MalformedRun)
        return cls(ratings, scores, n_ratings, n_scores)

    def spearman(self, rows: IntArray) -> float:
        """Spearman's rho of the chosen rows: Pearson's correlation of their average ranks.

        The sums are exact up to 200,000 rows, being whole numbers under 2**53.

        Args:
            rows: (n,) row positions; a row may occur more than once.

        Raises:
            DataError: the chosen ratings are all equal.
            MalformedRun: the chosen similarities are all equal.

        Example:
            >>> pairs = RatedPairs(np.array([1, 1, 2]), np.array([7, 8, 7]), np.array([5.0, 0.5, 0.5]))
            >>> round(CodedPairs.of(pairs, np.array([0.9, 0.1, 0.3])).spearman(np.arange(3)), 3)
            0.866
        """
        ratings = centred_ranks(self.rating_codes.take(rows), self.n_ratings)
        similarities = centred_ranks(self.similarity_codes.take(rows), self.n_similarities)
        spread = _inner(ratings, ratings), _inner(similarities, similarities)
        if not all(spread):
            raise _constant(rows.size, ratings=not spread[0])
        rho = _inner(ratings, similarities) / math.sqrt(spread[0] * spread[1])
        return min(max(rho, -1.0), 1.0)


def _inner(first: FloatArray, second: FloatArray) -> float:
    """Inner product without BLAS, whose threads cost more than a sum this short and stall on a busy machine."""
    return float(np.einsum("i,i->", first, second))


def _codes(
    values: NDArray[np.generic], shape: tuple[int, ...], name: str, error: type[CxcEccvError]
) -> tuple[IntArray, int]:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise error(f"{name} are of type {array.dtype}; need real numbers")
    if array.ndim != 1 or array.shape != shape:
        raise error(f"{name} have shape {array.shape} for rated pairs of shape {shape}; need {SAME_ROWS}")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise error(f"{name} hold {bad.size} NaN or infinite values, the first in row {bad[0]}; need finite numbers")
    distinct, codes = np.unique(array, return_inverse=True)
    if distinct.size < 2:
        stated = f"are all {distinct[0]}" if distinct.size else "are empty"
        raise error(f"{name} {stated}: a rank correlation needs at least two distinct values")
    return codes, distinct.size


def _constant(n_rows: int, *, ratings: bool) -> CxcEccvError:
    name, error = ("ratings", DataError) if ratings else ("similarities", MalformedRun)
    return error(
        f"the {name} of all {n_rows} chosen pairs are equal, so their rank correlation is undefined. "
        "Use more rated pairs, or a model that tells them apart."
    )


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
    check_whole("n_samples", n_samples, FEWEST_SAMPLES)
    check_whole("seed", seed, 0)
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
