"""report.json as a submission needs it: every type checked, nothing written by hand where it shows."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cxc_eccv.errors import DataError, InvalidOption, ReportRefused
from cxc_eccv.evaluation import report_from_json
from cxc_eccv.types import Report, Result

__all__ = ["read_report"]


def _is_number(value: object) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "task": (lambda value: isinstance(value, str), "text"),
    "direction": (lambda value: isinstance(value, str), "text"),
    "metric": (lambda value: isinstance(value, str), "text"),
    "value": (_is_number, "a finite decimal number"),
    "n_queries": (lambda value: _is_count(value) and value > 0, "a whole number of at least 1"),
    "low": (lambda value: value is None or _is_number(value), "a finite decimal number, or null"),
    "high": (lambda value: value is None or _is_number(value), "a finite decimal number, or null"),
    "ties": (_is_count, "a whole number of at least 0"),
    "coverage": (lambda value: value is None or (_is_number(value) and 0 <= value <= 1), "a fraction, or null"),
    "parameters": (lambda value: isinstance(value, dict), "a mapping"),
}


def read_report(path: str | Path) -> Report:
    """The report in a ``report.json``, after strict checks of its form.

    Raises:
        InvalidOption: the file cannot be read.
        ReportRefused: not a report.json; a key given twice; a value of the wrong type; a row whose key, or a score
            whose value, contradicts the results.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "report.json"
        >>> _ = path.write_text('{"schema": 1, "schema": 1}')
        >>> read_report(path)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        cxc_eccv.errors.ReportRefused: ...report.json: the key 'schema' is given twice
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = json.loads(text, object_pairs_hook=_once_each, parse_constant=_refused_constant)
        report = report_from_json(text)
        for row, result in zip(content["results"], report.results, strict=True):
            _check_row(row, result)
        _check_scores(content["scores"], report)
        _check_kinds(report)
    except (ReportRefused, DataError) as error:
        raise ReportRefused(f"{path}: {error}") from None
    except OSError as error:
        raise InvalidOption(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReportRefused(f"{path} is no report.json: {type(error).__name__}: {error}") from None
    return report


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ReportRefused(f"the key {key!r} is given twice")
        found[key] = value
    return found


def _refused_constant(constant: str) -> float:
    raise ReportRefused(f"it holds {constant}, which no metric gives")


def _check_row(row: dict[str, Any], result: Result) -> None:
    for name, (is_right, expected) in TYPES.items():
        value = getattr(result, name)
        if not is_right(value):
            raise ReportRefused(f"results, {row.get('key')}: {name} is {value!r}, expected {expected}")
    if row.get("key") != result.key:
        raise ReportRefused(f"results: the row of {result.key} has the key {row.get('key')!r}; it was edited")
    if (result.low is None) != (result.high is None) or result.ties > result.n_queries:
        raise ReportRefused(f"results, {result.key}: half an interval, or more ties than queries; it was edited")


def _check_scores(scores: object, report: Report) -> None:
    if not report.results:
        raise ReportRefused("it holds no result")
    keys = [result.key for result in report.results]
    for key in keys:
        if keys.count(key) > 1:
            raise ReportRefused(f"results: {key} is there twice")
    if not isinstance(scores, dict) or set(scores) != set(keys):
        raise ReportRefused("scores and results name different metrics; the file was edited. Evaluate again.")
    for key, value in report.scores.items():
        if type(scores[key]) is not float or scores[key] != value:
            raise ReportRefused(
                f"scores say {key} is {scores[key]!r}, results say {value!r}; the file was edited. Evaluate again."
            )


def _check_kinds(report: Report) -> None:
    for name in ("skipped", "provenance"):
        if not isinstance(getattr(report, name), dict):
            raise ReportRefused(f"{name} is {type(getattr(report, name)).__name__}, expected a mapping")
    unknown = set(TYPES) ^ {field.name for field in dataclasses.fields(Result)}
    if unknown:
        raise AssertionError(f"no check of, or none left for, the fields {unknown} of a result")
