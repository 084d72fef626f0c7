"""Graded Recall@K."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.kinds import TopMetric
from cxc_eccv.types import FloatArray, Judgments, TopK, look_up_gains


def graded_recall_at_k(top: TopK, judgments: Judgments, k: int = 1) -> FloatArray:
    """Graded Recall@K: the best gain among the top K items.

    A “100% YES” of ECCV Caption's annotators has gain 1, a “Partially YES” 0.5, and every other item, judged or not, 0.
    If all gains are 1 it is Recall@K. Among equal scores, the item of lower gain ranks first.

    Args:
        top: the top items of Q queries.
        judgments: judged items of the same queries with gains from 0 to 1.
        k: depth, at least 1.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        RunTooShallow: fewer than K items are known.
        DataError: a gain is not from 0 to 1, or a query has no positive.
        InvalidOption: k is not a whole number of at least 1.

    References:
        Chun et al., ECCV Caption, ECCV 2022, equations E.2 and E.4.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 2], [0, 2], [0], gains=np.array([0.5, 1.0]))
        >>> top = TopK(np.array([5]), np.array([[7, 8, 9]]))
        >>> [graded_recall_at_k(top, qrels, k).item() for k in (1, 3)]
        [0.5, 1.0]
    """
    gains, _ = look_up_gains(top, judgments, k, "graded_recall_at_k", degrees=True)
    return np.asarray(gains.max(axis=1))


def expect(top: TopK, judgments: Judgments, k: int, probabilities: FloatArray) -> FloatArray:
    """(Q,) expected values where each unjudged item has gain 1 with its probability, else 0."""
    known = graded_recall_at_k(top, judgments, k)
    return np.asarray(1 - (1 - known) * (1 - probabilities).prod(axis=1))


SPEC = TopMetric(
    graded_recall_at_k,
    "Graded R@{k}",
    gains="degrees",
    parameters={"k": (1, 5, 10)},
    expected=expect,
    citation="Chun et al., ECCV 2022, arXiv:2204.03359, equation E.4",
)
