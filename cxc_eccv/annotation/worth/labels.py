"""What labels are worth: how many positives they have, and how right and complete they are beside verified ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cxc_eccv.errors import DataError

__all__ = ["Multiplicity", "Worth", "count_positives", "measure_labels"]

Labels = Mapping[int, Collection[int]]
"""Query id to the ids of its positives, or of the items that people saw."""


@dataclass(frozen=True, slots=True)
class Worth:
    """Precision and recall of labels, as means over queries.

    Attributes:
        precision: share of a query's labelled positives that people verified.
        recall: share of a query's verified positives that are labelled.
        n_queries: queries with a labelled positive that people saw, and a verified one.
        n_unseen: queries left out, as people saw none of their labelled positives.
        n_unverified: queries left out, as people verified nothing for them.
    """

    precision: float
    recall: float
    n_queries: int
    n_unseen: int
    n_unverified: int


def measure_labels(labels: Labels, verified: Labels, seen: Labels) -> Worth:
    r"""Precision and recall of labels against what people verified.

    With :math:`r_i` the labelled positives of query i, :math:`t_i` the verified ones and :math:`h_i` all that people
    saw, :math:`r'_i = r_i \cap h_i`:

    .. math:: \mathrm{Prec} = \frac{1}{N} \sum_i \frac{|r'_i \cap t_i|}{|r'_i|} \qquad
              \mathrm{Recall} = \frac{1}{N} \sum_i 1 - \frac{|t_i \setminus r'_i|}{|t_i|}

    A query without :math:`r'_i` has no precision and is left out of both, as in the paper; so is one without
    :math:`t_i`, which has no recall.

    Args:
        labels: the positives to judge.
        verified: the positives that people confirmed.
        seen: all items that people were asked about; its queries are those that count.

    Raises:
        DataError: a verified positive that nobody was asked about, or no query left.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.3, Table 2.

    Example:
        >>> measure_labels({1: [10, 11, 99]}, {1: [10, 12]}, {1: [10, 11, 12]})
        Worth(precision=0.5, recall=0.5, n_queries=1, n_unseen=0, n_unverified=0)
    """
    for query, items in verified.items():
        unasked = set(items) - set(seen.get(query, ()))
        if unasked:
            raise DataError(
                f"query {query}: item {min(unasked)} is verified, and nobody was asked about it; give everything that "
                "people saw"
            )
    precisions, recalls, unseen, unverified = [], [], 0, 0
    for query, items in seen.items():
        own, right = set(labels.get(query, ())) & set(items), set(verified.get(query, ()))
        unseen += not own
        unverified += bool(own) and not right
        if own and right:
            precisions.append(len(own & right) / len(own))
            recalls.append(len(own & right) / len(right))
    if not precisions:
        raise DataError("no query has a labelled positive that people saw, and a verified one: nothing can be measured")
    count = len(precisions)
    return Worth(sum(precisions) / count, sum(recalls) / count, count, unseen, unverified)


@dataclass(frozen=True, slots=True)
class Multiplicity:
    """How many positives labels have.

    Attributes:
        n_queries: queries with a positive.
        n_positives: all positives, R of all queries together.
        mean, largest: of R over these queries.
    """

    n_queries: int
    n_positives: int
    mean: float
    largest: int


def count_positives(labels: Labels, queries: Collection[int]) -> Multiplicity:
    """The positives that labels have for some queries.

    Args:
        labels: query id to positives.
        queries: those to count.

    Raises:
        DataError: none of the queries has a positive.

    Example:
        >>> count_positives({1: [10, 11], 2: [20], 3: [30]}, [1, 2])
        Multiplicity(n_queries=2, n_positives=3, mean=1.5, largest=2)
    """
    counts = [len(set(labels[query])) for query in dict.fromkeys(queries) if labels.get(query)]
    if not counts:
        raise DataError(f"none of {len(queries)} queries has a positive")
    return Multiplicity(len(counts), sum(counts), sum(counts) / len(counts), max(counts))
