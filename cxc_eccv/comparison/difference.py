"""Difference and Comparison: what comparing models gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Comparison", "Difference", "Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How differences were tested.

    Attributes:
        seed: of the draws.
        samples: bootstrap samples.
        confidence: of the intervals; 1 minus it is the level of the tests.
        metrics: which are tested: ``main``, the main metric of each task, or ``all``.
    """

    seed: int = 0
    samples: int = 10_000
    confidence: float = 0.95
    metrics: str = "main"

    @property
    def level(self) -> float:
        """Of all tests together; 0.05, and not the 0.05000000000000004 that a subtraction of floats leaves.

        Example:
            >>> Settings().level
            0.05
        """
        return round(1 - self.confidence, 12)


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of one model against the baseline.

    Attributes:
        model, baseline: names.
        task, direction, metric: the key's parts.
        value, baseline_value: scores, in the report's units.
        difference: value minus baseline_value: the effect.
        low, high: percentile interval of the difference.
        p_value: two-sided; see :func:`cxc_eccv.comparison.significance.two_sided_p_value`.
        p_holm: corrected for all tests of the comparison.
        higher_is_better: of the metric.
        better, worse: queries on which the model beats the baseline, and the other way round; 0 for a whole task.
        n_queries, n_images: what was resampled.
    """

    model: str
    baseline: str
    task: str
    direction: str
    metric: str
    value: float
    baseline_value: float
    difference: float
    low: float
    high: float
    p_value: float
    p_holm: float
    higher_is_better: bool
    better: int
    worse: int
    n_queries: int
    n_images: int

    @property
    def key(self) -> str:
        """``task/direction/metric``, as in report.json."""
        return "/".join(part for part in (self.task, self.direction, self.metric) if part)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models against a baseline.

    Attributes:
        baseline: its name.
        models: names of those compared with it.
        settings: how it was tested.
        differences: a row per model and metric; Holm's correction is over all of them.
        not_compared: model to key to the reason why a metric was left out.
        notes: what else to know before believing the numbers.
    """

    baseline: str
    models: tuple[str, ...]
    settings: Settings
    differences: tuple[Difference, ...]
    not_compared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def significant(self, one: Difference) -> bool:
        """Whether a difference holds at the level of the tests after Holm's correction."""
        return one.p_holm < self.settings.level
