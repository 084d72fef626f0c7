"""Bootstrap Spearman, the correlation of the CxC paper."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import CxcEccvError, DataError, MalformedRun
from cxc_eccv.kernels import drawn_rows, rank_products
from cxc_eccv.metrics.kinds import RatedMetric
from cxc_eccv.types import FloatArray, IntArray, RatedPairs, check_whole
from cxc_eccv.types.ids import make_indptr

RATED_ROWS = "one row per rated pair, in the same order"
FEWEST_QUERIES = 4
FEWEST_HALVES = 2
HALVES_AT_ONCE = 16


def bootstrap_spearman(pairs: RatedPairs, similarities: FloatArray, n_samples: int = 1000, seed: int = 0) -> FloatArray:
    """Spearman correlation of ratings and similarities over random halves of the queries.

    Each sample draws half of the queries without replacement and one rated item per query, and computes Spearman's rho
    with average ranks for ties. Reports give the mean, the standard deviation (ddof 0), and the 2.5% and 97.5%
    quantiles as the 95% interval.

    Args:
        pairs: P rated pairs; queries are captions for STS, images for SIS and SITS.
        similarities: (P,) the model's similarity of each pair.
        n_samples: number of samples, at least 2.
        seed: seed of the draws, at least 0.

    Returns:
        (n_samples,) correlations in [-1, 1].

    Raises:
        DataError: there are fewer than 4 queries; ratings are not finite, not one per pair, or all equal in a sample.
        MalformedRun: similarities are not finite, not one per pair, or all equal in a sample.
        InvalidOption: ``n_samples`` or ``seed`` is not a whole number, or too small.

    References:
        Parekh et al., Crisscrossed Captions, EACL 2021, section 4.

    Example:
        >>> pairs = RatedPairs(np.arange(8), np.arange(8), np.arange(8.0))
        >>> bootstrap_spearman(pairs, np.arange(8.0) ** 3, n_samples=3).tolist()
        [1.0, 1.0, 1.0]
    """
    return CodedPairs.of(pairs, similarities).spearman(_draw_batches(pairs, n_samples, seed))


@dataclass(frozen=True, slots=True, eq=False)
class CodedPairs:
    """Ratings and similarities of P rated pairs as dense integer codes; equal codes are ties."""

    codes: NDArray[np.int32]
    n_levels: tuple[int, int]

    @classmethod
    def of(cls, pairs: RatedPairs, similarities: FloatArray) -> CodedPairs:
        """Check and code; bad ratings raise DataError, bad similarities MalformedRun."""
        shape = pairs.query_ids.shape
        if pairs.item_ids.shape != shape:
            raise DataError(f"query_ids have shape {shape} and item_ids {pairs.item_ids.shape}; need {RATED_ROWS}")
        ratings, n_ratings = _encode(pairs.ratings, shape, "ratings", DataError)
        scores, n_scores = _encode(similarities, shape, "similarities", MalformedRun)
        codes = np.stack([ratings, scores], axis=1, dtype=np.int32, casting="same_kind")
        return cls(codes, (n_ratings, n_scores))

    def spearman(self, batches: Iterable[IntArray]) -> FloatArray:
        """Spearman's rho of the rows of each sample: Pearson's correlation of their average ranks."""
        futures: list[Future[FloatArray]] = []
        with ThreadPoolExecutor(1) as worker:
            for rows in batches:
                if futures:
                    futures[-1].result()  # keeps draws from piling up
                futures.append(worker.submit(rank_products, self.codes, self.n_levels, rows))
        products = np.concatenate([future.result() for future in futures])
        of_ratings, of_similarities, of_both = products.T
        undefined = np.flatnonzero((of_ratings == 0) | (of_similarities == 0))
        if undefined.size:
            sample = undefined[0]
            if of_ratings[sample] == 0:
                raise DataError(_describe_equal("ratings", sample, rows.shape[1]))
            raise MalformedRun(_describe_equal("similarities", sample, rows.shape[1]))
        correlations: FloatArray = of_both / np.sqrt(of_ratings * of_similarities)
        return correlations.clip(-1.0, 1.0)


def _describe_equal(name: str, sample: int, n_pairs: int) -> str:
    return (
        f"bootstrap_spearman, sample {sample}: the {name} of all {n_pairs} chosen pairs are equal, "
        "so their rank correlation is undefined. Use more rated pairs, or a model that scores them differently."
    )


def _encode(
    values: NDArray[np.generic], shape: tuple[int, ...], name: str, error: type[CxcEccvError]
) -> tuple[IntArray, int]:
    """Values as the index of each among the distinct ones, and how many are distinct."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise error(f"{name} have type {array.dtype}; need real numbers")
    if array.ndim != 1 or array.shape != shape:
        raise error(f"{name} have shape {array.shape} for rated pairs of shape {shape}; need {RATED_ROWS}")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise error(f"{name} hold {bad.size} NaN or infinite values, the first in row {bad[0]}; need finite numbers")
    distinct, codes = np.unique(array, return_inverse=True)
    if distinct.size < 2:
        stated = f"are all {distinct[0]}" if distinct.size else "are empty"
        raise error(f"{name} {stated}: a rank correlation needs at least two distinct values")
    return codes, distinct.size


def query_draws(pairs: RatedPairs, n_samples: int = 1000, seed: int = 0) -> Iterator[IntArray]:
    """The rows of the rated pairs in each sample."""
    return itertools.chain.from_iterable(_draw_batches(pairs, n_samples, seed))


def _draw_batches(pairs: RatedPairs, n_samples: int, seed: int) -> Iterator[IntArray]:
    """The rows of several samples at a time; checks its arguments at once and draws lazily."""
    check_whole("n_samples", n_samples, FEWEST_HALVES)
    check_whole("seed", seed, 0)
    _, sizes = np.unique(pairs.query_ids, return_counts=True)
    if sizes.size < FEWEST_QUERIES:
        raise DataError(
            f"there are rated pairs of {sizes.size} queries; a bootstrap over half of them needs {FEWEST_QUERIES}"
        )
    by_query = np.lexsort((pairs.ratings, pairs.item_ids, pairs.query_ids))
    ends = make_indptr(sizes)
    random = np.random.Generator(np.random.PCG64(seed))
    starts = range(0, n_samples, HALVES_AT_ONCE)
    sizes_of_batches = [min(HALVES_AT_ONCE, n_samples - start) for start in starts]
    return (drawn_rows(random, by_query, ends, size) for size in sizes_of_batches)


SPEC = RatedMetric(
    bootstrap_spearman,
    "Spearman",
    long_title="Spearman, bootstrap",
    citation="Parekh et al., EACL 2021, arXiv:2004.15020",
)
