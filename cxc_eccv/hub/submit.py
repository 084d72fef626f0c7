"""Submission: a checked report as a pull request to the model it is about, planned and opened.

It writes ``.eval_results/cxc_eccv.yaml`` for the leaderboard and, if asked to, the older model-index of the card.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from huggingface_hub import CommitOperationAdd, EvalResult, EvalResultEntry, eval_result_entries_to_yaml
from huggingface_hub.repocard_data import eval_results_to_model_index

import cxc_eccv
from cxc_eccv.errors import HubConflict, HubError, InvalidOption, ReportRefused
from cxc_eccv.hub.card import CARD, join_card, read_matter, replace_keys, split_card
from cxc_eccv.hub.client import Access, Repository, repeat, text_diff
from cxc_eccv.hub.leaderboard import NAME, SPLIT, LeaderboardTask, check_benchmark, leaderboard_tasks
from cxc_eccv.hub.report_checks import checked_report
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.types import Report

__all__ = ["RESULTS", "Submission", "SubmitOptions", "checked_report", "merge_results", "plan_submission"]

RESULTS = ".eval_results/cxc_eccv.yaml"

Text = tuple[str | None, str]
"""What is there, None for nothing, and what shall be there."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission that was looked at and not made yet; print it to see what it would change.

    Left out are keys of the report that the leaderboard has no task for; unpublished are raw files without a hash of
    their authors'.
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
        """Open the pull request, once: one that is open with the same results is used; give its address.

        ``plan_anew`` makes the submission again, after a failure or after somebody else changed the model.
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
            stated = _read_undated if path == RESULTS else str
            if not found or stated(found) != stated(text):
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
    access = access or Access()
    options.require_no_secret(access.token)
    report, files = checked_report(path)
    tasks = [task for task in leaderboard_tasks().values() if task.key in report.scores]
    if not tasks:
        raise ReportRefused(f"{path}: it has no result that the leaderboard has a task for")
    benchmark = Repository(options.dataset, "dataset", access)
    revision, sources = check_benchmark(benchmark, [task.task_id for task in tasks], files)
    published = {entry.name for entry in load_catalog() if entry.sha256} | set(sources)
    repository = Repository(model, "model", access)
    parent = repository.head()
    if parent is None:
        raise HubError(f"there is no {repository}, or it may not be read")
    board = [(task, _make_entry(task, report, options, revision)) for task in tasks]
    return Submission(
        repository,
        parent,
        _merge_texts(repository, parent, board, options),
        f"Add results on {options.dataset}",
        _describe(report),
        tuple(key for key in report.scores if key not in leaderboard_tasks()),
        tuple(sorted(set(files) - published)),
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


Board = Sequence[tuple[LeaderboardTask, EvalResultEntry]]


def _merge_texts(repository: Repository, parent: str, board: Board, options: SubmitOptions) -> dict[str, Text]:
    there = repository.files(parent)
    before = repository.text(RESULTS, parent) if RESULTS in there else None
    texts = {RESULTS: (before, merge_results(before, [entry for _, entry in board], f"{RESULTS} of {repository}"))}
    if options.model_index:
        card = repository.text(CARD, parent) if CARD in there else None
        after = _add_results(card, board, repository.repo_id, f"{CARD} of {repository}")
        if card is not None and join_card(*split_card(card)) == after:
            after = card  # line ends alone are no change
        texts[CARD] = (card, after)
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
        """Raise if the token is in one of the texts, which will be public."""
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


def merge_results(before: str | None, entries: Sequence[EvalResultEntry], where: str = RESULTS) -> str:
    """Put entries into the text of the results file: those of the same task are replaced, all others kept.

    An entry that states the same value for the same revision is kept as it is, with its date. ``before`` is what is
    there, None for nothing; where that does not have the form of such a file, ``HubConflict`` names ``where``.

    Example:
        >>> print(merge_results(None, [EvalResultEntry("org/data", "cxc_i2t_recall_at_1", 0.5)]), end="")
        - dataset:
            id: org/data
            task_id: cxc_i2t_recall_at_1
          value: 0.5
    """
    there = [] if before is None else _read_rows(before, where)
    rows = {_place(row): row for row in there}
    for row in eval_result_entries_to_yaml(list(entries)):
        if _without_date(rows.get(_place(row), {})) != _without_date(row):
            rows[_place(row)] = row
    if before is not None and there == list(rows.values()):
        return before
    return str(yaml.safe_dump(list(rows.values()), sort_keys=False, allow_unicode=True, width=1000))


def _read_undated(text: str) -> list[dict[str, Any]]:
    """The results that a file states, whenever they were computed."""
    return [_without_date(row) for row in _read_rows(text, RESULTS)]


def _read_rows(text: str, where: str) -> list[dict[str, Any]]:
    try:
        rows = yaml.safe_load(text)
        if isinstance(rows, list) and all(isinstance(row["value"], int | float) and _place(row) for row in rows):
            return rows
    except (yaml.YAMLError, KeyError, TypeError):
        pass
    raise HubConflict(
        f"{where} is not a list of results with dataset.id, dataset.task_id and value. Correct or delete it."
    )


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["dataset"]["id"], row["dataset"]["task_id"]


def _without_date(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "date"}


INDEX = "model-index"


def _add_results(card: str | None, board: Board, model: str, where: str) -> str:
    """Put results into the ``model-index`` of a card, which is made where there is none; all else stays as it is.

    Earlier results on the same dataset with the same metric names are replaced, others are kept.
    """
    matter, body = split_card(card or "")
    index = read_matter(matter, where).get(INDEX) or [{"name": model, "results": []}]
    try:
        kept = [left for row in index[0]["results"] if (left := _drop_restated(row, board))]
        rows = [*kept, *_make_metric_rows(board, model)]
    except (KeyError, TypeError, IndexError, AttributeError):
        raise HubConflict(
            f"{where}: its {INDEX} does not have the form the Hub documents. Correct or remove it."
        ) from None
    changed = [{**index[0], "results": rows}, *index[1:]]
    return join_card(replace_keys(matter, {INDEX: changed}, where), body)


def _make_metric_rows(board: Board, model: str) -> list[dict[str, Any]]:
    results = [
        EvalResult(
            task_type="image-text-retrieval",
            dataset_type=entry.dataset_id,
            dataset_name=NAME,
            dataset_config=task.config,
            dataset_split=SPLIT,
            dataset_revision=entry.dataset_revision,
            metric_type=task.key.rpartition("/")[2],
            metric_name=task.key,
            metric_value=entry.value,
        )
        for task, entry in board
    ]
    rows: list[dict[str, Any]] = eval_results_to_model_index(model, results)[0]["results"]
    return rows


def _drop_restated(row: dict[str, Any], board: Board) -> dict[str, Any] | None:
    """A row without the metrics that are stated anew; None where none is left."""
    if row["dataset"].get("type") not in {entry.dataset_id for _, entry in board}:
        return row
    anew = {task.key for task, _ in board}
    metrics = [metric for metric in row["metrics"] if metric.get("name") not in anew]
    return {**row, "metrics": metrics} if metrics else None
