"""Whether the numbers of a report can be what they say they are."""

from __future__ import annotations

import inspect
from itertools import pairwise

import numpy as np

from cxc_eccv.errors import ReportRefused, UnknownName
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.registry import metric_variants, task
from cxc_eccv.types import Report, Result

__all__ = ["check_values"]

ROUNDING = 1e-9

SPREAD = "_std"
"""End of the name of a standard deviation."""

FREE = ("seed",)
"""Parameters that anyone may choose."""

AT_MOST = (("map_at_r", "r_precision"),)
"""Metrics of the same direction of which the first is never above the second."""


def check_values(report: Report) -> None:
    """Check names, bounds, and what one metric says about another.

    Raises:
        ReportRefused: an unknown task, direction or metric; a value outside the metric's bounds; metrics of one
            direction with different numbers of queries; recall that falls with the depth, mAP@R above R-Precision, or
            a sum that is not that of its parts.

    Example:
        >>> row = Result("coco_5k", "i2t", "recall_at_1", 1.5, 5000, parameters={"k": 1})
        >>> check_values(Report((row,), {}, {}))
        Traceback (most recent call last):
        cxc_eccv.errors.ReportRefused: coco_5k/i2t/recall_at_1 is 1.5, outside its range of 0.0 to 1.0
    """
    by_place: dict[tuple[str, str], dict[str, Result]] = {}
    for result in report.results:
        spec = _spec(result)
        _check_parameters(result, spec)
        _check_bounds(result, spec)
        by_place.setdefault((result.key.rpartition("/")[0], spec.needs), {})[result.metric] = result
    for (place, _), results in by_place.items():
        _check_place(place, results)
    for result in report.results:
        if not result.direction:
            _check_whole(result, _spec(result), report)


def _spec(result: Result) -> Spec:
    try:
        declared = task(result.task)
        spec, _ = metric_variants(result.metric.removesuffix(SPREAD))
    except UnknownName as error:
        raise ReportRefused(f"{result.key}: {error}") from None
    parts = ("",) if spec.needs == "scores" else tuple(declared.offers.get(spec.needs, ()))
    if result.direction not in parts:
        raise ReportRefused(f"{result.key}: {result.metric} is not defined there; expected one of {', '.join(parts)}")
    return spec


def _check_parameters(result: Result, spec: Spec) -> None:
    """Those in the name must be what the name says, all others the defaults: another policy is another number."""
    named = {name: value for name, value in result.parameters.items() if name in spec.parameters}
    if spec.label(**named) != result.metric.removesuffix(SPREAD):
        raise ReportRefused(f"{result.key}: its parameters {dict(result.parameters)} are not those of {result.metric}")
    for name, parameter in inspect.signature(spec.function).parameters.items():
        value = result.parameters.get(name, parameter.default)
        if name not in (*spec.parameters, *FREE) and value != parameter.default:
            raise ReportRefused(f"{result.key}: computed with {name}={value!r}, expected {parameter.default!r}")


def _check_bounds(result: Result, spec: Spec) -> None:
    low, high = spec.bounds
    for value in (result.value, result.low, result.high):
        if value is not None and (value < low or (high is not None and value > high + ROUNDING)):
            limit = f"{low} or more" if high is None else f"{low} to {high}"
            raise ReportRefused(f"{result.key} is {value}, outside its range of {limit}")
    if result.low is not None and result.high is not None and result.low > result.high:
        raise ReportRefused(f"{result.key}: its interval begins at {result.low} and ends at {result.high}")


def _check_place(place: str, results: dict[str, Result]) -> None:
    counts = {result.n_queries for result in results.values()}
    if len(counts) > 1:
        raise ReportRefused(f"{place}: its metrics have {' and '.join(map(str, sorted(counts)))} queries, not as many")
    depths = sorted(int(name.rpartition("_")[2]) for name in results if name.startswith("recall_at_"))
    growing = [(f"recall_at_{less}", f"recall_at_{more}") for less, more in pairwise(depths)]
    for lower, upper in (*growing, *AT_MOST):
        if lower in results and upper in results and results[lower].value > results[upper].value + ROUNDING:
            raise ReportRefused(f"{place}: {lower} is above {upper}, which cannot be; the file was edited")


def _check_whole(result: Result, spec: Spec, report: Report) -> None:
    directions = task(result.task).directions
    keys = [f"{result.task}/{direction}/{label}" for direction in directions for label in spec.inputs]
    if all(key in report.scores for key in keys):
        expected = float(spec.function(np.array([report.scores[key] for key in keys])))
        if not np.isclose(result.value, expected, rtol=ROUNDING, atol=ROUNDING):
            raise ReportRefused(f"{result.key} is {result.value}, its parts make {expected}; the file was edited")
