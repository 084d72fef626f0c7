"""Where every plus-minus comes from: draws, cluster bootstrap, intervals, tests, corrections, agreement."""

from cxc_eccv.statistics.bootstrap import SAMPLES, ClusterBootstrap, Draws
from cxc_eccv.statistics.estimate import Estimate
from cxc_eccv.statistics.intervals import fisher_interval, interval, wilson
from cxc_eccv.statistics.tests import FEWEST_SAMPLES, enough_samples, holm, least_p_value, two_sided_p_value

__all__ = [
    "FEWEST_SAMPLES",
    "SAMPLES",
    "ClusterBootstrap",
    "Draws",
    "Estimate",
    "enough_samples",
    "fisher_interval",
    "holm",
    "interval",
    "least_p_value",
    "two_sided_p_value",
    "wilson",
]
