"""Statistics: draws, bootstrap, intervals of values and ranks, tests, agreement, and means from predictions."""

from cxc_eccv.statistics.intervals import (
    FEWEST_SAMPLES,
    SAMPLES,
    ClusterBootstrap,
    Draws,
    Estimate,
    Intervals,
    draw_batches,
    enough_samples,
    fisher_interval,
    holm,
    interval,
    least_p_value,
    two_sided_p_value,
    wilson,
)
from cxc_eccv.statistics.prediction_powered import (
    choose_probabilities,
    draw,
    estimate_mean,
    estimate_ratio,
    ppi_mean,
)
from cxc_eccv.statistics.ranks import (
    POWER,
    RankIntervals,
    detectable_difference,
    queries_to_detect,
    rank_intervals,
)

__all__ = [
    "FEWEST_SAMPLES",
    "POWER",
    "SAMPLES",
    "ClusterBootstrap",
    "Draws",
    "Estimate",
    "Intervals",
    "RankIntervals",
    "choose_probabilities",
    "detectable_difference",
    "draw",
    "draw_batches",
    "enough_samples",
    "estimate_mean",
    "estimate_ratio",
    "fisher_interval",
    "holm",
    "interval",
    "least_p_value",
    "ppi_mean",
    "queries_to_detect",
    "rank_intervals",
    "two_sided_p_value",
    "wilson",
]
