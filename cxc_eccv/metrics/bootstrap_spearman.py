"""Bootstrap Spearman, the correlation that the CxC paper reports, and the rank correlation behind it.

That counts instead of sorting: values become integer codes once, for all pairs or drawn ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import CxcEccvError, DataError, MalformedRun
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray, IntArray, RatedPairs, check_whole

__all__ = ["SPEC", "CodedPairs", "bootstrap_spearman", "query_draws"]

SAME_ROWS = "one row per rated pair, in the same order"
FEWEST_QUERIES = 4
FEWEST_SAMPLES = 2


def bootstrap_spearman(pairs: RatedPairs, similarities: FloatArray, n_samples: int = 1000, seed: int = 0) -> FloatArray:
    """Spearman correlation of ratings and similarities over random halves of the queries, one rated item for each.

    Per sample: half of the queries without replacement, for each one of the items rated with it, Spearman's rho (ties
    have average ranks). The report takes the mean; the standard deviation is ``np.std`` of the samples (ddof 0), the
    95% interval lies between their 2.5% and 97.5% quantiles.

    Args:
        pairs: P rated pairs; queries are captions for STS, images for SIS and SITS.
        similarities: (P,) the model's similarity of each pair.
        n_samples: number of samples, at least 2.
        seed: of the draws, at least 0.

    Returns:
        (n_samples,) correlations in [-1, 1].

    Raises:
        DataError: fewer than 4 queries; ratings not finite, not one per pair, or all equal in a sample.
        MalformedRun: similarities not finite, not one per pair, or all equal in a sample.
        InvalidOption: ``n_samples`` or ``seed`` is not a whole number, or too small.

    References:
        Parekh et al., Crisscrossed Captions, EACL 2021, section 4.

    Example:
        >>> pairs = RatedPairs(np.arange(8), np.arange(8), np.arange(8.0))
        >>> bootstrap_spearman(pairs, np.arange(8.0) ** 3, n_samples=3).tolist()
        [1.0, 1.0, 1.0]
    """
    coded = CodedPairs.of(pairs, similarities)
    draws = query_draws(pairs, n_samples, seed)
    correlations = np.empty(n_samples)
    for sample, rows in enumerate(draws):
        try:
            correlations[sample] = coded.spearman(rows)
        except (DataError, MalformedRun) as error:
            raise type(error)(f"bootstrap_spearman, sample {sample}: {error}") from None
    return correlations


def centred_ranks(codes: IntArray, n_levels: int) -> FloatArray:
    """Twice the average ranks, less their mean: whole numbers that sum to zero.

    With ``below`` smaller and ``upto`` smaller or equal entries, the average rank of an entry among n is
    (below + upto + 1) / 2; doubled, and less n + 1, that is below + upto - n. No sorting.

    The (n,) codes go from 0 to ``n_levels - 1``, ordered as the values they stand for.

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
        """Check and code: DataError for ratings that are all equal, not finite or not one per pair, else MalformedRun.

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

        The sums are exact up to 200,000 rows, being whole numbers under 2**53. Rows may occur more than once; values
        that are all equal among them are a DataError for ratings, a MalformedRun for similarities.

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


def query_draws(pairs: RatedPairs, n_samples: int = 1000, seed: int = 0) -> Iterator[IntArray]:
    """Rows of the rated pairs that each sample correlates.

    A sample takes half of the queries (rounded down) without replacement and, uniformly, one of each query's rows.
    The draws depend on the seed and the set of pairs, not on the order of the rows.

    Yields ``n_samples`` arrays (Q // 2,) of row positions for P pairs of Q queries, by numpy's PCG64 generator.

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


SPEC = Spec(
    function=bootstrap_spearman,
    title="Spearman",
    long_title="Spearman, bootstrap",
    unit="correlation",
    needs="rated_pairs",
    citation="Parekh et al., EACL 2021, arXiv:2004.15020",
    bounds=(-1.0, 1.0),
)
