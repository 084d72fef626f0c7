"""Statistics: draws, cluster bootstrap, intervals of values and ranks, tests, corrections, agreement of annotators."""

from cxc_eccv.statistics.intervals import (
    FEWEST_SAMPLES,
    SAMPLES,
    ClusterBootstrap,
    Draws,
    Estimate,
    enough_samples,
    fisher_interval,
    holm,
    interval,
    least_p_value,
    two_sided_p_value,
    wilson,
)
from cxc_eccv.statistics.ranks import POWER, RankIntervals, detectable_difference, queries_to_detect, rank_intervals

__all__ = [
    "FEWEST_SAMPLES",
    "POWER",
    "SAMPLES",
    "ClusterBootstrap",
    "Draws",
    "Estimate",
    "RankIntervals",
    "detectable_difference",
    "enough_samples",
    "fisher_interval",
    "holm",
    "interval",
    "least_p_value",
    "queries_to_detect",
    "rank_intervals",
    "two_sided_p_value",
    "wilson",
]
