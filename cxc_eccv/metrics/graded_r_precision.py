"""Graded R-Precision."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.chances import count_chances
from cxc_eccv.metrics.kinds import TopMetric
from cxc_eccv.types import FloatArray, Judgments, TopK, look_up_gains


def graded_r_precision(top: TopK, judgments: Judgments) -> FloatArray:
    """Graded R-Precision: the sum of the gains of the top R items, over the number R of positives.

    Positives are items of gain above 0, including those outside the gallery; unjudged items have gain 0. If all gains
    are 1 it is R-Precision; otherwise the best ranking scores the mean gain of the positives. Among equal scores, the
    item of lower gain ranks first.

    Args:
        top: the top items of Q queries, as many as the largest R.
        judgments: judged items of the same queries with gains from 0 to 1.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        RunTooShallow: fewer items are known than the largest R.
        DataError: a gain is not from 0 to 1, or a query has no positive.

    References:
        Chun et al., ECCV Caption, ECCV 2022, equations E.3 and E.4.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 2], [0, 2], [0], gains=np.array([0.5, 1.0]))
        >>> graded_r_precision(TopK(np.array([5]), np.array([[7, 8, 9]])), qrels).tolist()
        [0.25]
    """
    n_relevant = judgments.n_relevant
    gains, _ = look_up_gains(top, judgments, int(n_relevant.max(initial=1)), "graded_r_precision", degrees=True)
    looked_at = np.arange(gains.shape[1]) < n_relevant[:, None]
    return np.asarray((gains * looked_at).sum(axis=1) / n_relevant)


def expect(top: TopK, judgments: Judgments, probabilities: FloatArray) -> FloatArray:
    """(Q,) expected values where each unjudged item has gain 1 with its probability, else 0.

    A positive adds one to R, so what it adds to the value depends on the number of other positives.
    """
    n_relevant = judgments.n_relevant[:, None]
    reach = probabilities.shape[1]
    gains, _ = look_up_gains(top, judgments, int(n_relevant.max()) + reach, "graded_r_precision", degrees=True)
    places = np.arange(gains.shape[1])
    total = n_relevant + np.arange(reach + 1)
    sums = np.cumsum(np.column_stack([np.zeros(len(gains)), gains]), axis=1)
    known = np.take_along_axis(sums, np.minimum(total, gains.shape[1]), axis=1) / total
    values = (count_chances(probabilities) * known).sum(axis=1)
    for place in range(min(reach, gains.shape[1])):
        others = count_chances(np.delete(probabilities, place, axis=1))
        values += probabilities[:, place] * (others * (places[place] < total[:, 1:]) / total[:, 1:]).sum(axis=1)
    return np.asarray(values)


SPEC = TopMetric(
    graded_r_precision,
    "Graded R-Precision",
    gains="degrees",
    expected=expect,
    citation="Chun et al., ECCV 2022, arXiv:2204.03359, equations E.3 and E.4",
)
