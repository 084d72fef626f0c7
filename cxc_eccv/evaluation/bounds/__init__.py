"""Bounds of a number over all labels that unjudged pairs could have.

- **Retrieved** pairs are those of a query with its top K for a metric at K, and with its top D for other metrics (D is
  ``bounds_depth``, 50 by default). Among ties, known negatives come first, then unjudged items, then positives.
- **Judged** pairs are those that a source of the task's labels calls positive or negative (such as a rating below the
  threshold). COCO and ECCV Caption list only positives, without the pairs that annotators rejected. All other pairs
  are unjudged; the usual number counts them as wrong.
- A **labelling** makes some unjudged pairs of a query positive, retrieved or not; judged pairs stay as they are. Each
  new positive adds one to R of R-Precision and mAP@R, so without K a labelling has at most D of them a query; ``low``
  would otherwise be 0. Ranks are recomputed under the tie rule. For nDCG a new positive has any rating up to 5, for
  Entail@K the label 1, for graded metrics any degree; these metrics keep the retrieved top.
- ``low`` and ``high`` bound the metric over all labellings, for the queries that have a known positive. Queries are
  independent, and mean and median rise with the value of every query, so each query has separate extremes.
- ``expected`` is the mean of the metric if each unjudged retrieved pair is positive with its probability,
  independently, and no other pair. Of a tie that goes on below the top, no unjudged pair counts as retrieved: the tie
  rule puts those without a label first. It is exact, and exists only if probabilities are given, for images with
  captions.

A metric never falls when a positive moves up. So of all labellings with n new positives, the one of the first n
unjudged items is the best and that of the last n the worst: D need 2 D labellings. A bound is attained, with two
exceptions in which it is wider: below the top D every item but a known positive counts as unjudged, and a tie across
the end of the top D is broken for ``high``.
"""

from cxc_eccv.evaluation.bounds.expected import ProbabilitiesOf, ask_probabilities
from cxc_eccv.evaluation.bounds.extremes import (
    SamplingUnits,
    bound_matches,
    bound_ranks,
    bound_sums,
    bound_top,
    make_rank_units,
    make_top_units,
)
from cxc_eccv.evaluation.bounds.retrieved import Retrieved, read_tops, retrieve

__all__ = [
    "ProbabilitiesOf",
    "Retrieved",
    "SamplingUnits",
    "ask_probabilities",
    "bound_matches",
    "bound_ranks",
    "bound_sums",
    "bound_top",
    "make_rank_units",
    "make_top_units",
    "read_tops",
    "retrieve",
]
