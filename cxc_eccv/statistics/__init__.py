"""Statistics: draws, bootstrap, intervals, tests, corrections, agreement, and means from predictions and a sample."""

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
from cxc_eccv.statistics.prediction_powered import (
    choose_probabilities,
    draw,
    estimate_mean,
    estimate_ratio,
    ppi_mean,
)

__all__ = [
    "FEWEST_SAMPLES",
    "SAMPLES",
    "ClusterBootstrap",
    "Draws",
    "Estimate",
    "choose_probabilities",
    "draw",
    "enough_samples",
    "estimate_mean",
    "estimate_ratio",
    "fisher_interval",
    "holm",
    "interval",
    "least_p_value",
    "ppi_mean",
    "two_sided_p_value",
    "wilson",
]
