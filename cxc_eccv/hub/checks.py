"""What may be submitted: reports on the official data that compare with ours, to a benchmark of the same files."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import HfApi

from cxc_eccv import version
from cxc_eccv.builders.output import MANIFEST_NAME, list_departures
from cxc_eccv.errors import DataError, HubError, ReportRefused
from cxc_eccv.hub.client import read_text
from cxc_eccv.hub.leaderboard import EVAL_YAML, RANKED_SPLIT, leaderboard_tasks, read_task_ids
from cxc_eccv.registry import metric_variants
from cxc_eccv.report import Report
from cxc_eccv.report.loading import find_report, load_report
from cxc_eccv.sources.catalog import OFFICIAL, load_catalog
from cxc_eccv.types import Result

EVALUATE = "Evaluate again with `cxc-eccv evaluate FILE --split test` on the official data."

COMPARABLE_SINCE = "0.1.0"
"""The first release whose reports have the numbers of this one, for equal data.

A release that changes a number of the leaderboard sets this to its own version. Any other release, as one that sets
addresses, leaves it, and earlier reports count on.
"""

FREE = ("seed",)
"""Parameters of metrics that may have any value."""


def checked_report(path: str | Path) -> Report:
    """Check without the network whether a report may be submitted, and return it.

    The path is that of the report's folder or of its report.json.

    Raises:
        ReportRefused: the file is no report, or not one on the whole test split of the official data by a release with
            the numbers of this one.

    Example:
        >>> checked_report("no/report.json")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        cxc_eccv.errors.ReportRefused: there is no no/report.json. Name a folder ...
    """
    file = find_report(Path(path))
    try:
        report = load_report(file)
    except DataError as error:
        raise ReportRefused(str(error)) from None
    if fault := next(_faults(report), None):
        raise ReportRefused(f"{file}: {fault}. {EVALUATE}")
    return report


def _faults(report: Report) -> Iterator[str]:
    """Why a report does not compare with those of this release on all of the official test split."""
    package = report.provenance.package
    data = report.provenance.data
    split = report.provenance.split
    catalog = load_catalog()
    files = data.files
    if package.name != "cxc_eccv" or not files:
        yield "its provenance does not name this package and its data"
    if fault := _find_version_fault(package.version):
        yield fault
    if split != RANKED_SPLIT:
        yield f"it covers the split {split!r}; the leaderboard takes {RANKED_SPLIT!r}"
    if report.departure:
        yield f"it was computed from {report.departure}"
    if data.edition != OFFICIAL:
        yield f"it was computed from the edition {data.edition!r}, not the official data"
    if data.version != catalog.version:
        yield f"it was computed from version {data.version} of the data, not {catalog.version}"
    if own := [name for name in files if (entry := catalog.entries.get(name)) and not (entry.sha256 or entry.url)]:
        yield f"it uses files of your own: {', '.join(own)}"
    for result in report.results:
        if result.key in leaderboard_tasks():
            yield from find_unusual_parameters(result)


def _find_version_fault(made_by: str) -> str | None:
    """Why the numbers of a version may differ from those of this one, or None if they are the same.

    Only releases count for one another: the version of a development copy or a changed one does not say what it
    computes.
    """
    ours = version.__version__
    if made_by == ours:
        return None
    both = f"cxc_eccv {made_by} computed it, and this is {ours}"
    if not (_is_release(made_by) and _is_release(ours)):
        return f"{both}; another version counts only if both are releases"
    if _order(made_by) > _order(ours):
        return f"{both}, which is older; submit with the version that computed it"
    if _order(made_by) < _order(COMPARABLE_SINCE):
        return f"{both}; the numbers have changed in {COMPARABLE_SINCE}"
    return None


def _is_release(version: str) -> bool:
    return re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", version) is not None


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in release.split("."))


def find_unusual_parameters(result: Result) -> Iterator[str]:
    """Parameters that are not in a metric's name and do not have their defaults."""
    spec, _ = metric_variants(result.metric)
    for name, parameter in inspect.signature(spec.function).parameters.items():
        value = result.parameters.get(name, parameter.default)
        if name not in (*spec.parameters, *FREE) and value != parameter.default:
            yield f"{result.key} was computed with {name}={value!r}, expected {parameter.default!r}"


class Benchmark(NamedTuple):
    """The released dataset: repository, commit, ids of its tasks, and the sha256 of its raw files by catalog name."""

    repository: str
    revision: str
    task_ids: frozenset[str]
    sources: Mapping[str, str]


def read_benchmark(api: HfApi, repo_id: str) -> Benchmark:
    """The facts of a dataset on the Hub; raises unless it is a benchmark of the official data."""
    revision = str(api.repo_info(repo_id, repo_type="dataset").sha)
    texts = {name: read_text(api, repo_id, "dataset", name, revision) for name in (EVAL_YAML, MANIFEST_NAME)}
    if lacking := [name for name, text in texts.items() if text is None]:
        raise HubError(f"{repo_id} has no {lacking[0]}, so `cxc-eccv push` did not upload it as a benchmark")
    try:
        manifest = json.loads(texts[MANIFEST_NAME] or "")
        sources = dict(manifest["sources"])
        departures = list_departures(manifest)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise HubError(f"{MANIFEST_NAME} of {repo_id} is not one that `cxc-eccv build` wrote") from None
    if departures:
        raise ReportRefused(
            f"{repo_id} is no benchmark, because it was built with {'; '.join(departures)}. Name with --dataset a "
            "plain build of the official data."
        )
    return Benchmark(repo_id, revision, read_task_ids(texts[EVAL_YAML] or "", f"{EVAL_YAML} of {repo_id}"), sources)


def check_same_files(report: Report, benchmark: Benchmark) -> None:
    """Raise unless a report and a benchmark agree on every raw file that both name."""
    for name, digest in report.provenance.data.files.items():
        if benchmark.sources.get(name, digest) != digest:
            raise ReportRefused(
                f"the report and {benchmark.repository} use different files of {name}: sha256 {digest} and "
                f"{benchmark.sources[name]}"
            )
