"""Results: one number of a report each, with its interval and its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from cxc_eccv.types.json_records import null_if
from cxc_eccv.types.strict_json import COUNT, SHARE, Json, Kind

SPREAD = "_std"
"""Suffix of a metric's label that stands for the standard deviation over its samples."""

WITHOUT_RESULTS = "queries_without_results"
"""Parameter of a result: how many of its queries count 0, as they have no results."""

WILSON = ("binomial", "binomial_images")
INTERVAL_METHODS = ("bootstrap", "bootstrap_queries", "random_halves", "studentized", *WILSON)
"""How an interval was made: by draws of images with all their captions, of queries with all their rated pairs, or of
random halves of the queries as the metric defines; by Student's t over few images, corrected for skewness; or by
Wilson's formula, for the number of queries or of images."""

METHOD = Kind(lambda value: value in INTERVAL_METHODS, f"one of {', '.join(INTERVAL_METHODS)}")
POSITIVE = Kind(lambda value: COUNT.holds(value) and value > 0, "a whole number of at least 1")
WRITTEN = null_if(lambda record: True)
WITH_ESTIMATE = null_if(lambda bounds: bounds.estimate is not None)
WITH_PRECISION = null_if(lambda bounds: bounds.precision is not None)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Range of a value over all labels that unjudged pairs could have.

    Attributes:
        low, high: lowest and highest value under any labels; without K, at most ``bounds_depth`` new positives a query.
        unjudged: number of unjudged retrieved pairs.
        retrieved: number of retrieved pairs.
        expected: mean value under random labels, each pair positive with its probability; None without probabilities.
        estimate, estimate_low, estimate_high: the value if people had judged all of these pairs, estimated from their
            answers about drawn ones, with its confidence interval; None without answers.
        precision, precision_low, precision_high: share of the pairs that a judge calls entailed which people call so,
            estimated from the same answers; None without answers, or if fewer than 30 such pairs were drawn by chance.
    """

    low: float
    high: float
    unjudged: int
    retrieved: Annotated[int, POSITIVE]
    expected: float | None = field(default=None, metadata=WRITTEN)
    estimate: float | None = None
    estimate_low: float | None = field(default=None, metadata=WITH_ESTIMATE)
    estimate_high: float | None = field(default=None, metadata=WITH_ESTIMATE)
    precision: float | None = None
    precision_low: float | None = field(default=None, metadata=WITH_PRECISION)
    precision_high: float | None = field(default=None, metadata=WITH_PRECISION)

    @property
    def share(self) -> float:
        """Share of the retrieved pairs that are unjudged."""
        return self.unjudged / self.retrieved


@dataclass(frozen=True, slots=True)
class Result:
    """One number of a report.

    Attributes:
        task, direction, metric: parts of the key; direction is empty for a number of the whole task.
        value: fraction in [0, 1], or a plain rank.
        low, high: ends of the confidence interval, or None.
        n_queries: number of queries that the value averages.
        ties: number of queries in which an item ties with a positive.
        if_ties_help: the value with items of equal scores in reverse order, so that ties help; None where ties are
            unknown (a ranking without scores) or mean nothing (correlations, pairs that a judge labelled).
        decided_by_ties: number of queries whose value this order changes, or None.
        chance: the value to expect of a random order of each query's gallery; None where no formula is known.
        coverage: share of the needed pairs that are judged, or None where all are.
        parameters: parameters of the metric.
        bounds: bounds over the labels of unjudged pairs, or None.
        interval_method: how the interval was made, one of :data:`INTERVAL_METHODS`, or None.
    """

    task: str
    direction: str
    metric: str
    value: float
    n_queries: Annotated[int, POSITIVE]
    low: float | None = field(default=None, metadata=WRITTEN)
    high: float | None = field(default=None, metadata=WRITTEN)
    ties: int = field(default=0, metadata=WRITTEN)
    if_ties_help: float | None = field(default=None, metadata=WRITTEN)
    decided_by_ties: int | None = field(default=None, metadata=WRITTEN)
    chance: float | None = field(default=None, metadata=WRITTEN)
    coverage: Annotated[float, SHARE] | None = field(default=None, metadata=WRITTEN)
    parameters: Mapping[str, Json] = field(default_factory=dict, metadata=WRITTEN)
    bounds: Bounds | None = None
    interval_method: Annotated[str, METHOD] | None = None

    @property
    def key(self) -> str:
        """``task/direction/metric``, as in report.json.

        Example:
            >>> Result("coco_5k", "i2t", "recall_at_1", 0.5, 5000).key
            'coco_5k/i2t/recall_at_1'
        """
        return "/".join(part for part in (self.task, self.direction, self.metric) if part)


def group_by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Reason to the names it applies to, in their order."""
    grouped: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        grouped.setdefault(reason, []).append(name)
    return grouped
