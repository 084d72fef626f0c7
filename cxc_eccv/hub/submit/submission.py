"""Submission: a checked report as a pull request to the model it is about, planned and opened."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import CommitOperationAdd, EvalResultEntry

import cxc_eccv
from cxc_eccv.errors import HubError, InvalidOption, ReportRefused
from cxc_eccv.hub import front_matter
from cxc_eccv.hub.client import Access, Repository, repeat, text_diff
from cxc_eccv.hub.leaderboard import LeaderboardTask, check_benchmark, leaderboard_tasks
from cxc_eccv.hub.submit import eval_results
from cxc_eccv.hub.submit.report_checks import checked_report
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.types import Report

__all__ = ["Submission", "SubmitOptions", "plan_submission"]

CARD = "README.md"

Text = tuple[str | None, str]
"""What is there, None for nothing, and what shall be there."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission that was looked at and not made yet; print it to see what it would change.

    Attributes:
        repository: of the model.
        parent: its commit that was looked at.
        files: path to what is there and what shall be there.
        title: of the pull request.
        description: of the pull request.
        left_out: keys of the report that the leaderboard has no task for.
        unpublished: raw files of the report whose authors publish no hash.
    """

    repository: Repository
    parent: str
    files: Mapping[str, Text]
    title: str
    description: str
    left_out: tuple[str, ...] = ()
    unpublished: tuple[str, ...] = ()

    @property
    def pending(self) -> dict[str, str]:
        """Path to new text of the files that change."""
        return {path: after for path, (before, after) in self.files.items() if before != after}

    @property
    def diff(self) -> str:
        """Unified diff of all files."""
        return "\n".join(text_diff(before or "", after, path) for path, (before, after) in self.files.items())

    def __str__(self) -> str:
        lines = [f"left out: {key}, for which the leaderboard has no task" for key in self.left_out]
        lines += [f"taken on trust: {name}, whose sha256 its authors do not publish" for name in self.unpublished]
        lines += [self.diff if self.pending else f"{self.repository} states these results already"]
        return "\n".join(lines)

    def open_pull_request(self, plan_anew: Callable[[], Submission]) -> str:
        """Open the pull request, once: one that is open with the same results is used.

        Args:
            plan_anew: makes the submission again, after a failure or after somebody else changed the model.

        Returns:
            Its address.

        Raises:
            HubAccessDenied: no token.
            HubUnavailable: the Hub does not answer, although asked several times.
            HubError: it refuses what was sent.
        """
        self.repository.access.require_token()
        return repeat(lambda submission: submission._find_open() or submission._open(), self, plan_anew)

    def _open(self) -> str:
        additions = [CommitOperationAdd(path, text.encode()) for path, text in self.pending.items()]
        commit = self.repository.commit(additions, self.title, parent=self.parent, pull_request=self.description)
        return str(commit.pr_url)

    def _find_open(self) -> str | None:
        """Its answer may have been lost, or the command was given twice."""
        for proposal in self.repository.open_pull_requests():
            if proposal.title == self.title and self._states_the_same(f"refs/pr/{proposal.num}"):
                return proposal.url
        return None

    def _states_the_same(self, revision: str) -> bool:
        there = self.repository.files(revision)
        for path, text in self.pending.items():
            found = self.repository.text(path, revision) if path in there else ""
            is_same = eval_results.same_results if path == eval_results.PATH else str.__eq__
            if not found or not is_same(found, text):
                return False
        return True


def plan_submission(
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
    benchmark = Repository(options.dataset, "dataset", place)
    revision, sources = check_benchmark(benchmark, [task.task_id for task in tasks], files)
    entries = [_make_entry(task, report, options, revision) for task in tasks]
    published = {entry.name for entry in load_catalog() if entry.sha256} | set(sources)
    return _plan(Repository(model, "model", place), entries, options, report, sorted(set(files) - published))


def _plan(
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
        _merge_texts(repository, parent, entries, options),
        f"Add results on {options.dataset}",
        _describe(report),
        tuple(key for key in report.scores if key not in leaderboard_tasks()),
        tuple(unpublished),
    )


def _make_entry(task: LeaderboardTask, report: Report, options: SubmitOptions, revision: str) -> EvalResultEntry:
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


def _merge_texts(
    repository: Repository, parent: str, entries: list[EvalResultEntry], options: SubmitOptions
) -> dict[str, Text]:
    there = repository.files(parent)

    def before(path: str) -> str | None:
        return repository.text(path, parent) if path in there else None

    old = before(eval_results.PATH)
    texts = {eval_results.PATH: (old, eval_results.merge_results(old, entries, f"{eval_results.PATH} of {repository}"))}
    if options.model_index:
        card = before(CARD)
        after = eval_results.add_results(card, entries, repository.repo_id, f"{CARD} of {repository}")
        # Line ends alone are no change.
        same = card is not None and front_matter.join(*front_matter.split(card)) == after
        texts[CARD] = (card, card if same and card is not None else after)
    return texts


def _describe(report: Report) -> str:
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
        object.__setattr__(self, "date", _check_date(self.date))
        _check_source(self.source)
        notes = self.notes or ""
        if len(notes) > LONGEST_NOTES or not (notes or " ").isprintable():
            raise InvalidOption(f"notes: expected one line of at most {LONGEST_NOTES} characters")

    def require_no_secret(self, token: str | None) -> None:
        """Raise if the token is in one of the texts, which will be public.

        Raises:
            InvalidOption: it is.
        """
        if token and any(token in text for text in (self.notes or "", self.source or "")):
            raise InvalidOption("the notes or the source hold your access token, and would be public. Revoke it.")


def _check_date(date: str | None) -> str:
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
