"""Graded R-Precision."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.chances import count_chances
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray, Judgments, TopK, look_up_gains


def graded_r_precision(top: TopK, judgments: Judgments) -> FloatArray:
    """R-Precision with degrees: the gains of the top R items over R, R being the query's number of positives.

    Per query (1 / R) times the sum, over ranks i up to R, of the gain of the item at i, which is 0 where it was not
    judged. Positives are items of gain above 0; R counts those that are outside the gallery too. Where all gains are 1
    it is R-Precision. Where some are lower no ranking reaches 1, but at the most the mean gain of the positives. Of
    items with equal scores the one of lower gain stands above.

    Args:
        top: the best items of Q queries, as many as the largest R.
        judgments: judged items of the same queries with their gains, from 0 to 1.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        RunTooShallow: fewer items are known than the largest R.
        DataError: a gain that is not from 0 to 1, or a query without a positive.

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


def expected(top: TopK, judgments: Judgments, probabilities: FloatArray) -> FloatArray:
    """(Q,) expected values where each item that was not judged has gain 1 with its own probability, or 0.

    Each of them adds one to R, and so does what it adds to the value depend on how many of the others there are.
    """
    n_relevant, reach = judgments.n_relevant[:, None], probabilities.shape[1]
    gains, _ = look_up_gains(top, judgments, int(n_relevant.max()) + reach, "graded_r_precision", degrees=True)
    places, total = np.arange(gains.shape[1]), n_relevant + np.arange(reach + 1)
    found = np.cumsum(np.column_stack([np.zeros(len(gains)), gains]), axis=1)
    known = np.take_along_axis(found, np.minimum(total, gains.shape[1]), axis=1) / total
    values = (count_chances(probabilities) * known).sum(axis=1)
    for place in range(min(reach, gains.shape[1])):
        others = count_chances(np.delete(probabilities, place, axis=1))
        values += probabilities[:, place] * (others * (places[place] < total[:, 1:]) / total[:, 1:]).sum(axis=1)
    return np.asarray(values)


SPEC = Spec(
    function=graded_r_precision,
    title="Graded R-Precision",
    needs="top_k",
    gains="degrees",
    expected=expected,
    citation="Chun et al., ECCV 2022, arXiv:2204.03359, equations E.3 and E.4",
)
