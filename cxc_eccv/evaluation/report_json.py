"""report.json: a report as text and back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from cxc_eccv.errors import DataError
from cxc_eccv.types import Report, Result

__all__ = ["report_from_json", "report_to_json"]

SCHEMA = 1


def report_to_json(report: Report) -> str:
    """The text of ``report.json``: schema, scores by key, all results, skipped tasks, provenance.

    Args:
        report: what :func:`cxc_eccv.evaluation.from_run.evaluate` returned.

    Raises:
        ValueError: a value is not finite, which no metric gives.

    Example:
        >>> report = Report((Result("coco_5k", "i2t", "recall_at_1", 0.5, 2),), {}, {"split": "test"})
        >>> report_from_json(report_to_json(report)).scores
        {'coco_5k/i2t/recall_at_1': 0.5}
    """
    content = {
        "schema": SCHEMA,
        "scores": report.scores,
        "results": [{"key": result.key, **dataclasses.asdict(result)} for result in report.results],
        "skipped": dict(report.skipped),
        "provenance": dict(report.provenance),
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def report_from_json(text: str) -> Report:
    """The report that :func:`report_to_json` wrote.

    Raises:
        DataError: not such a file, or of another schema.

    Example:
        >>> report_from_json("{}")
        Traceback (most recent call last):
        cxc_eccv.errors.DataError: not a report.json of schema 1: schema is None
    """
    try:
        content = json.loads(text)
        if content.get("schema") != SCHEMA:
            raise DataError(f"not a report.json of schema {SCHEMA}: schema is {content.get('schema')!r}")
        results = tuple(_result(entry) for entry in content["results"])
        return Report(results, content["skipped"], content["provenance"])
    except (json.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
        raise DataError(f"not a report.json of schema {SCHEMA}: {type(error).__name__}: {error}") from None


def _result(entry: dict[str, Any]) -> Result:
    return Result(**{name: value for name, value in entry.items() if name != "key"})
