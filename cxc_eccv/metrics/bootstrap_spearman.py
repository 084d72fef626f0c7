"""Bootstrap Spearman, the correlation that the CxC paper reports."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.metrics.rank_correlation import CodedPairs, query_draws
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray, RatedPairs

__all__ = ["SPEC", "bootstrap_spearman"]


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


SPEC = Spec(
    function=bootstrap_spearman,
    title="Spearman",
    long_title="Spearman, bootstrap",
    unit="correlation",
    needs="rated_pairs",
    citation="Parekh et al., EACL 2021, arXiv:2004.15020",
    bounds=(-1.0, 1.0),
)
