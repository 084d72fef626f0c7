"""Entail@K."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.metrics.kinds import TopMetric
from cxc_eccv.types import LABEL_VALUES, FloatArray, IntArray, Judgments, TopK, check_values, look_up_gains
from cxc_eccv.unjudged.policies import Classifier, policies


def entail_at_k(top: TopK, judgments: Judgments, k: int = 1, unjudged: str | Classifier = "not_entailed") -> FloatArray:
    """Fraction of the top K captions that are ground truth or entailed by the query.

    A query is an image with its captions. The policy ``unjudged`` treats retrieved pairs without a label:
    ``not_entailed`` counts them as 0, ``leave_out`` takes the fraction among labelled pairs only, and a classifier
    labels them. Among equal scores, labelled non-entailed items rank first, then unlabelled ones, then the others.

    Args:
        top: the top items of Q queries.
        judgments: labelled items of the same queries; gain 1 where ground truth or entailed, else 0.
        k: depth, at least 1.
        unjudged: ``not_entailed``, ``leave_out``, or a classifier.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        RunTooShallow: fewer than K items are known.
        DataError: labels are not 0 or 1; or, under ``leave_out``, a query has no labelled pair in its top K.
        UnknownName: the policy is unknown.
        InvalidOption: k is not a whole number of at least 1.

    References:
        Yan et al., Revising Image-Text Retrieval via Multi-Modal Entailment, 2022, equation 13.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 2], [0, 1], [0], gains=np.array([1.0, 0.0]))
        >>> top = TopK(np.array([5]), np.array([[7, 9]]))
        >>> entail_at_k(top, qrels, 2).item(), entail_at_k(top, qrels, 2, "leave_out").item()
        (0.5, 1.0)
        >>> entail_at_k(top, qrels, 2, lambda query_ids, item_ids: item_ids == 9).item()
        1.0
    """
    check_policy(unjudged)
    gains, judged = look_up_gains(top, judgments, k, "entail_at_k")
    _check_labels(gains, "the judgments")
    if callable(unjudged):
        rows, columns, labels = ask_labels(unjudged, top, judged)
        gains[rows, columns] = labels
        return np.asarray(gains.mean(axis=1))
    policy = policies()[unjudged]
    labelled = judged.any(axis=1)
    if policy.needs_label and not labelled.all():
        query = top.query_ids[~labelled][0]
        raise DataError(f"entail_at_k: none of the top {k} of query {query} has a label; leave the query out")
    return policy.compute(gains, judged)


def check_policy(unjudged: str | Classifier) -> None:
    """Raise an error unless the policy for unjudged pairs is known."""
    if unjudged == "classifier":
        raise InvalidOption("unjudged is 'classifier'; pass the classifier itself or a table of its labels")
    if not callable(unjudged) and unjudged not in policies():
        raise UnknownName("policy for unjudged pairs", unjudged, (*policies(), "classifier"))


def _check_labels(labels: NDArray[np.generic], source: str, pairs: tuple[IntArray, IntArray] | None = None) -> None:
    if labels.dtype.kind not in "biuf":
        raise DataError(f"entail_at_k: labels of {source} have type {labels.dtype}; need {LABEL_VALUES}")
    check_values(labels, f"entail_at_k: labels of {source}", LABEL_VALUES, pairs)


def ask_labels(
    classifier: Classifier, top: TopK, judged: NDArray[np.bool_], name: str = "entail_at_k"
) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows, columns and the classifier's labels of the pairs of a (Q, K) top that are not judged."""
    rows, columns = np.nonzero(~judged)
    pairs = top.query_ids[rows], top.ids[rows, columns]
    labels = np.asarray(classifier(*pairs)) if rows.size else np.empty(0)
    if labels.shape != rows.shape:
        raise DataError(f"{name}: the classifier returned labels of shape {labels.shape} for {rows.size} pairs")
    _check_labels(labels, "the classifier", pairs)
    return rows, columns, labels


def expect(top: TopK, judgments: Judgments, k: int, probabilities: FloatArray) -> FloatArray:
    """(Q,) expected values where each unlabelled item is entailed with its probability."""
    return np.asarray(entail_at_k(top, judgments, k) + probabilities.mean(axis=1))


SPEC = TopMetric(
    entail_at_k,
    "Entail@{k}",
    parameters={"k": (1, 5, 10, 30)},
    gains="labels",
    expected=expect,
    citation="Yan et al., 2022, arXiv:2208.10126",
)
