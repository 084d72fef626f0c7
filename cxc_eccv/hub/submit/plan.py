"""Submit: from report.json to a planned submission, or to the reason why not."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import EvalResultEntry

import cxc_eccv
from cxc_eccv.errors import HubError, InvalidOption, ReportRefused
from cxc_eccv.hub import front_matter
from cxc_eccv.hub.client import Access, Repository
from cxc_eccv.hub.leaderboard import LeaderboardTask, leaderboard_tasks
from cxc_eccv.hub.submit import eval_results
from cxc_eccv.hub.submit.checked_report import check_values, checked_data, read_report
from cxc_eccv.hub.submit.eval_results import card_with_results
from cxc_eccv.hub.submit.released_data import released_data
from cxc_eccv.hub.submit.submission import Submission, Text
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.types import Report

__all__ = ["SubmitOptions", "checked_report", "planned_submission"]

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


LONGEST_NOTES = 300
FARTHEST_EAST = datetime.timedelta(hours=14)


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """What a submission says beside the numbers.

    Attributes:
        dataset: the benchmark, ``owner/name``: the released dataset that ``cxc-eccv push`` uploaded.
        date: when the report was computed, ISO-8601; today for None.
        notes: about the setting, in a line, as ``zero-shot``.
        source: address of logs or a paper.
        model_index: write the results into the model's card too.

    Raises:
        InvalidOption: an impossible date, notes of several lines, a source that is no address.

    Example:
        >>> SubmitOptions("org/cxc_eccv", date="2026-02-30")
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: date '2026-02-30': expected a day of the calendar, as 2026-11-20
    """

    dataset: str
    date: str | None = None
    notes: str | None = None
    source: str | None = None
    model_index: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "date", _checked_date(self.date))
        _check_source(self.source)
        notes = self.notes or ""
        if len(notes) > LONGEST_NOTES or not (notes or " ").isprintable():
            raise InvalidOption(f"notes: expected one line of at most {LONGEST_NOTES} characters")

    def require_no_secret(self, token: str | None) -> None:
        """Make sure that the token is in none of the texts, which will be public.

        Raises:
            InvalidOption: it is.
        """
        if token and any(token in text for text in (self.notes or "", self.source or "")):
            raise InvalidOption("the notes or the source hold your access token, and would be public. Revoke it.")


def _checked_date(date: str | None) -> str:
    """Today for None."""
    now = datetime.datetime.now(datetime.UTC)
    if date is None:
        return now.date().isoformat()
    try:
        moment = datetime.datetime.fromisoformat(date)
    except ValueError:
        raise InvalidOption(f"date {date!r}: expected a day of the calendar, as 2026-11-20") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    if moment > now + FARTHEST_EAST:
        raise InvalidOption(f"date {date!r} is in the future")
    return date


def _check_source(url: str | None) -> None:
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidOption("the source is no address on the web; expected https://...")
    if parts.username or parts.password:
        raise InvalidOption("the source holds a user name or a password, and would be public. Leave them out.")
