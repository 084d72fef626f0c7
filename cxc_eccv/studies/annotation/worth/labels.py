"""What labels are worth: how many positives they have, and how right and complete they are beside verified ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["Multiplicity", "Worth", "count_positives", "measure_labels"]


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """Precision and recall of labels, query by query."""

    precision_ids: IntArray  # queries with a labelled positive that people were asked about
    precision: FloatArray  # share of these that people verified
    recall_ids: IntArray  # queries with a labelled positive among what is known, and a verified one
    recall: FloatArray  # share of the verified positives that are labelled
    n_unlabelled: int  # queries left out of both, as nothing is known of any of their labelled positives
    n_unverified: int  # queries left out of recall alone, as nothing is verified for them


def measure_labels(queries: ArrayLike, labelled: ArrayLike, verified: ArrayLike, asked: ArrayLike) -> Worth:
    r"""Precision and recall of labels against what people verified.

    With :math:`r_i` the labelled positives of query i, :math:`t_i` the verified ones, :math:`h_i` all that people
    saw, and :math:`r'_i = r_i \cap h_i`:

    .. math:: \mathrm{Prec} = \frac{1}{N} \sum_i \frac{|r'_i \cap t_i|}{|r'_i|} \qquad
              \mathrm{Recall} = \frac{1}{N} \sum_i 1 - \frac{|t_i \setminus r'_i|}{|t_i|}

    As in the paper, a query without :math:`r'_i` has no precision and is left out of both. One without :math:`t_i` has
    no recall and is left out of that; it stays in precision, where all of its labels are wrong. The paper has one N, as
    each of its queries has a verified positive.

    Args:
        queries: (P,) query of each pair of which something is known; every pair once.
        labelled: (P,) whether the labels call it positive.
        verified: (P,) whether it is positive.
        asked: (P,) whether people were asked about it. A pair that is taken for positive without having been asked
            about counts for recall alone.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.3, Table 2.

    Example:
        >>> worth = measure_labels([1, 1, 1], [True, True, False], [True, False, True], [True, True, True])
        >>> worth.precision.tolist(), worth.recall.tolist()
        ([0.5], [0.5])
    """
    ids = np.asarray(queries)
    labels, truth, seen = (np.asarray(values) for values in (labelled, verified, asked))
    if (~seen & ~truth).any():
        raise DataError(
            f"query {ids[~seen & ~truth][0]}: a pair that nobody was asked about is called no match; leave out pairs "
            "of which nothing is known"
        )
    own, rows = np.unique(ids, return_inverse=True)

    def count(which: NDArray[np.bool_]) -> FloatArray:
        return np.bincount(rows[which], minlength=own.size).astype(np.float64)

    judged, known, true = count(labels & seen), count(labels), count(truth)
    precise, complete = judged > 0, (known > 0) & (true > 0)
    return Worth(
        own[precise],
        count(labels & truth & seen)[precise] / judged[precise],
        own[complete],
        count(labels & truth)[complete] / true[complete],
        int((known == 0).sum()),
        int(((known > 0) & (true == 0)).sum()),
    )


@dataclass(frozen=True, slots=True)
class Multiplicity:
    """How many positives labels have."""

    n_queries: int  # with a positive
    n_without: int  # queries that were counted and have none
    n_positives: int  # R of all queries together
    mean: float  # of R over the queries with a positive
    quartiles: tuple[float, float, float]  # of R over them: three quarters of the queries have at least the first
    largest: int


def count_positives(sizes: ArrayLike) -> Multiplicity:
    """The positives that labels have (Table 3), from R of each query that counts, 0 where it has no positive."""
    given = np.asarray(sizes)
    counts = given[given > 0]
    low, middle, high = np.quantile(counts, [0.25, 0.5, 0.75]).tolist()
    return Multiplicity(
        counts.size,
        given.size - counts.size,
        int(counts.sum()),
        float(counts.mean()),
        (low, middle, high),
        int(counts.max()),
    )
