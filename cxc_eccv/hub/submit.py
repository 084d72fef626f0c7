"""Submit: from report.json to a planned submission, or to the reason why not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from huggingface_hub import EvalResultEntry

import cxc_eccv
from cxc_eccv.errors import HubError, ReportRefused
from cxc_eccv.hub import eval_results, front_matter
from cxc_eccv.hub.access import Access
from cxc_eccv.hub.leaderboard import LeaderboardTask, leaderboard_tasks
from cxc_eccv.hub.model_index import card_with_results
from cxc_eccv.hub.released_data import released_data
from cxc_eccv.hub.report_data import checked_data
from cxc_eccv.hub.report_file import read_report
from cxc_eccv.hub.report_values import check_values
from cxc_eccv.hub.repository import Repository
from cxc_eccv.hub.submission import Submission, Text
from cxc_eccv.hub.submit_options import SubmitOptions
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.types import Report

__all__ = ["checked_report", "planned_submission"]

CARD = "README.md"


def checked_report(path: str | Path) -> tuple[Report, Mapping[str, str]]:
    """A report that may be submitted, and the raw files it was computed from; needs no network.

    Raises:
        InvalidOption: the file cannot be read.
        ReportRefused: malformed, edited, or not of the official data; says what and where.

    Example:
        >>> checked_report("no/report.json")
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: cannot read no/report.json: No such file or directory
    """
    report = read_report(path)
    try:
        check_values(report)
        return report, checked_data(report)
    except ReportRefused as error:
        raise ReportRefused(f"{path}: {error}") from None


def planned_submission(
    path: str | Path, model: str, options: SubmitOptions, *, access: Access | None = None
) -> Submission:
    """Check a report against this package, the official data and the benchmark, and plan the pull request.

    Changes nothing.

    Args:
        path: ``report.json`` of ``cxc-eccv evaluate`` on the test split.
        model: repository of the model, ``owner/name``.
        options: the benchmark, and what to say beside the numbers.
        access: which Hub, with which token.

    Raises:
        ReportRefused: the report must not be submitted; says why.
        InvalidOption: an option, or the name of a repository, is wrong.
        HubConflict: what the model's repository holds cannot be merged with.
        HubError: no such model or benchmark; or the Hub, or the way to it, failed.
    """
    place = access or Access()
    options.require_no_secret(place.token)
    report, files = checked_report(path)
    tasks = [task for task in leaderboard_tasks().values() if task.key in report.scores]
    if not tasks:
        raise ReportRefused(f"{path}: it has no result that the leaderboard has a task for")
    released = released_data(Repository(options.dataset, "dataset", place))
    released.require_tasks([task.task_id for task in tasks])
    released.require_same(files)
    entries = [_entry(task, report, options, released.revision) for task in tasks]
    published = {entry.name for entry in load_catalog() if entry.sha256} | set(released.sources)
    return _submission(Repository(model, "model", place), entries, options, report, sorted(set(files) - published))


def _submission(
    repository: Repository,
    entries: list[EvalResultEntry],
    options: SubmitOptions,
    report: Report,
    unpublished: list[str],
) -> Submission:
    parent = repository.head()
    if parent is None:
        raise HubError(f"there is no {repository}, or it may not be read")
    return Submission(
        repository,
        parent,
        _texts(repository, parent, entries, options),
        f"Add results on {options.dataset}",
        _description(report),
        tuple(key for key in report.scores if key not in leaderboard_tasks()),
        tuple(unpublished),
    )


def _entry(task: LeaderboardTask, report: Report, options: SubmitOptions, revision: str) -> EvalResultEntry:
    made = f"cxc_eccv {cxc_eccv.__version__}, data {report.provenance['data']['version']}"
    return EvalResultEntry(
        dataset_id=options.dataset,
        task_id=task.task_id,
        value=report.scores[task.key],
        dataset_revision=revision,
        date=options.date,
        source_url=options.source,
        notes=f"{options.notes}; {made}" if options.notes else made,
    )


def _texts(
    repository: Repository, parent: str, entries: list[EvalResultEntry], options: SubmitOptions
) -> dict[str, Text]:
    there = repository.files(parent)

    def before(path: str) -> str | None:
        return repository.text(path, parent) if path in there else None

    old = before(eval_results.PATH)
    texts = {
        eval_results.PATH: (old, eval_results.merged_results(old, entries, f"{eval_results.PATH} of {repository}"))
    }
    if options.model_index:
        card = before(CARD)
        after = card_with_results(card, entries, repository.repo_id, f"{CARD} of {repository}")
        # Line ends alone are no change.
        same = card is not None and front_matter.joined(*front_matter.split(card)) == after
        texts[CARD] = (card, card if same and card is not None else after)
    return texts


def _description(report: Report) -> str:
    data = report.provenance["data"]
    return (
        f"Computed with `cxc-eccv evaluate` (cxc_eccv {cxc_eccv.__version__}) on version {data['version']} of the "
        f"official data, fingerprint `{data['fingerprint']}`, and checked by `cxc-eccv submit`."
    )
