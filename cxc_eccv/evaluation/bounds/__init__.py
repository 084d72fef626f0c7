"""Bounds over the unjudged: what labels could make of a number, if retrieved pairs had them that nobody judged.

- **Retrieved** are the pairs of a query with its top K for a metric at K, and with its top D for every other one (D is
  ``bounds_depth``, 50 unless told otherwise), in the order of the evaluation; of tied items known negatives stand
  first, then unjudged ones, then positives.
- **Judged** is a pair of which a source of the task's labels says anything: that it is positive, or that it is not, as
  a rating below the threshold does; and every pair with an altered caption, which was made to be wrong. COCO and ECCV
  Caption list positives alone; what ECCV Caption's annotators turned down was not published. All other pairs are
  unjudged. The usual number counts them as wrong.
- A **labelling** calls any of the retrieved unjudged pairs positive, and leaves all else as it is: other pairs of the
  gallery stay wrong. R of R-Precision and mAP@R grows by one for each pair that is called positive. Ranks are found
  anew under the tie rule: a positive stands below what it ties with, but for other positives. For nDCG such a pair has
  any rating up to 5, for Entail@K the label 1, for graded metrics any degree; all take the top as it was retrieved.
- ``low`` and ``high`` are the least and the largest value of the metric over all labellings. Labels of one query say
  nothing of another, so each query has its own extremes; mean and median rise with every query's value.
- ``expected`` is the mean of the metric where each of these pairs is positive with its own probability, independently.
  It is exact, for every metric, and there where probabilities of images with captions are at hand.

A metric never gets worse when a positive moves up. So of all labellings with n new positives that of the first n
unjudged items is the best, and that of the last n the worst: of U unjudged pairs 2 U labellings are looked at, not 2^U.
"""

from cxc_eccv.evaluation.bounds.expected import ask_probabilities, expected_median
from cxc_eccv.evaluation.bounds.extremes import bounds_of_ranks, bounds_of_top
from cxc_eccv.evaluation.bounds.of_needs import BoundsOfNeeds
from cxc_eccv.evaluation.bounds.retrieved import Retrieved, TopOfKnown

__all__ = [
    "BoundsOfNeeds",
    "Retrieved",
    "TopOfKnown",
    "ask_probabilities",
    "bounds_of_ranks",
    "bounds_of_top",
    "expected_median",
]
