"""Settings: how values are aggregated and shown, apart from what is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.evaluation.top_k import Unjudged, policy_name

__all__ = ["INTERVALS", "SPLITS", "Settings", "check_split"]

SPLITS = ("validation", "test")
INTERVALS = ("bootstrap", "binomial", "binomial_images", "none")


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """Options of a report.

    Attributes:
        seed: of every bootstrap.
        confidence: of the intervals; None for no intervals.
        intervals: ``bootstrap`` over images; ``binomial``: Wilson's interval for metrics whose values are 0 or 1, as if
            queries were independent, the bootstrap for others; ``binomial_images``: likewise, but with the number of
            images behind the queries in place of the number of queries; or ``none``.
        unjudged: policy for retrieved pairs without a label: ``not_entailed``, ``leave_out``, a classifier, or a table
            of predicted labels.
        per_query: whether to keep the value of every query.

    Raises:
        UnknownName: no such kind of interval, no such policy.
        InvalidOption: a negative seed, or a confidence that is not between 0 and 1.
        DataError: a table of predicted labels that is malformed.

    Example:
        >>> Settings(seed=7).facts
        {'seed': 7, 'confidence': 0.95, 'intervals': 'bootstrap'}
    """

    seed: int = 0
    confidence: float | None = 0.95
    intervals: str = "bootstrap"
    unjudged: Unjudged = "not_entailed"
    per_query: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InvalidOption(f"seed is {self.seed!r}, expected a whole number of at least 0")
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise InvalidOption(f"confidence is {self.confidence!r}, expected a number between 0 and 1, as 0.95")
        if self.intervals not in INTERVALS:
            raise UnknownName("kind of intervals", self.intervals, INTERVALS)
        policy_name(self.unjudged)

    @property
    def level(self) -> float | None:
        """The confidence, or None where no intervals are asked for."""
        return None if self.intervals == "none" else self.confidence

    @property
    def facts(self) -> dict[str, Any]:
        """What a report records."""
        return {
            "seed": self.seed,
            "confidence": self.level,
            "intervals": "none" if self.level is None else self.intervals,
        }


def check_split(split: str) -> None:
    """Refuse a split that does not exist before any work is done.

    Raises:
        UnknownName: no such split.

    Example:
        >>> check_split("test")
    """
    if split not in SPLITS:
        raise UnknownName("split", split, SPLITS)
