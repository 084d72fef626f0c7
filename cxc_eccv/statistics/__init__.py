"""Statistics: draws, cluster bootstrap, confidence intervals, tests, corrections and agreement of annotators."""

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
