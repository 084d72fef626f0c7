"""Results of our tasks as mteb names and keeps them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cxc_eccv.errors import InvalidOption
from cxc_eccv.integrations.model_runs import main_key
from cxc_eccv.registry import tasks
from cxc_eccv.report import Report
from cxc_eccv.sources.catalog import OFFICIAL
from cxc_eccv.types import DIRECTIONS, Result
from cxc_eccv.writing import write_texts

SUBSET = "default"
"""What mteb calls the only subset of a task."""

LANGUAGE = "eng-Latn"

META = "model_meta.json"

NO_REVISION = "no_revision_available"
"""What mteb calls the revision of a model that has none."""


def task_name(direction: str, split: str, edition: str) -> str:
    """The name of our task in mteb.

    mteb keeps results by the name of the task and averages over its splits. So results on other data, or with another
    main score, need another name.

    Example:
        >>> task_name("i2t", "test", "official"), task_name("t2t", "validation", "sample")
        ('CxcEccvI2T', 'CxcEccvT2T.validation.sample')
    """
    other_split = "" if split == "test" else f".{split}"
    other_edition = "" if edition == OFFICIAL else f".{edition}"
    return f"CxcEccv{direction.upper()}{other_split}{other_edition}"


def data_revision(edition: str, version: str) -> str:
    """What mteb records as the revision of the data."""
    return f"{edition} {version}"


def task_scores(report: Report) -> dict[str, Any]:
    """Every score of a report under its key, and the intervals, as mteb keeps them for one task."""
    intervals = {result.key: [result.low, result.high] for result in report.results if result.low is not None}
    return {**report.scores, "intervals": intervals}


def _find_direction(result: Result) -> str:
    """The direction of a result; empty for one of a whole task."""
    return next((part.direction for part in tasks()[result.task].parts if part.name == result.direction), "")


def mteb_results(report: Report) -> dict[str, dict[str, Any]]:
    """Name of the task to the content of mteb's JSON file, for each direction whose main score the report has.

    The content is the same as of ``mteb.evaluate`` with :func:`cxc_eccv.integrations.mteb.mteb_task`, except that mteb
    did not compute it: version and time are null.

    Raises:
        InvalidOption: the report covers a part of the split, other labels or modified data, or has no main score.
    """
    if report.departure:
        raise InvalidOption(f"the report is on {report.departure}; mteb's tasks are on the whole, official data")
    split = report.provenance.split
    data = report.provenance.data
    files = {}
    for direction in DIRECTIONS:
        results = tuple(result for result in report.results if _find_direction(result) == direction)
        scores = task_scores(Report(results))
        key = main_key(direction, split)
        if key in scores:
            name = task_name(direction, split, data.edition)
            files[name] = {
                "dataset_revision": data_revision(data.edition, data.version),
                "task_name": name,
                "mteb_version": None,
                "scores": {
                    split: [{**scores, "main_score": scores[key], "hf_subset": SUBSET, "languages": [LANGUAGE]}]
                },
                "evaluation_time": None,
                "kg_co2_emissions": None,
            }
    if not files:
        keys = dict.fromkeys(filter(None, (main_key(direction, split) for direction in DIRECTIONS)))
        raise InvalidOption(f"the report has no main score of mteb's tasks; evaluate one of these: {', '.join(keys)}")
    return files


def write_mteb(folder: Path, reports: Mapping[str, Report]) -> list[Path]:
    """Write the results of every model, name to report, for ``mteb.ResultCache(folder)``; return the files' paths."""
    written = []
    for model, files in {model: mteb_results(report) for model, report in reports.items()}.items():
        place = re.sub(r"[^\w.-]", "_", model.replace("/", "__")).lstrip(".") or "model"
        target = folder / "results" / place / NO_REVISION
        contents: dict[str, Any] = {f"{name}.json": content for name, content in files.items()}
        if not (target / META).is_file():  # mteb's own says more
            contents[META] = {"name": model, "revision": NO_REVISION}
        dumped = partial(json.dumps, indent=2, ensure_ascii=False, allow_nan=False)
        written += write_texts(target, {name: dumped(content) + "\n" for name, content in contents.items()})
    return written
