"""Submission: plan and open a pull request that adds a checked report's results to its model's repository.

The pull request writes ``.eval_results/cxc_eccv.yaml`` for the leaderboard and, on request, the older model-index of
the card. A second submission updates the pull request of the first while that is open.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml
from huggingface_hub import CommitOperationAdd, Discussion, EvalResult, EvalResultEntry, eval_result_entries_to_yaml
from huggingface_hub.repocard_data import eval_results_to_model_index

import cxc_eccv
from cxc_eccv.errors import HubConflict, HubError, InvalidOption, ReportRefused
from cxc_eccv.hub.card import CARD, join_card, read_matter, replace_keys, split_card
from cxc_eccv.hub.client import Access, Repository, repeat, text_diff, wrap
from cxc_eccv.hub.leaderboard import (
    NAME,
    SPLIT,
    LeaderboardTask,
    check_benchmark,
    checked_report,
    leaderboard_tasks,
    select_tasks,
)
from cxc_eccv.hub.leaderboard import PATH as EVAL_YAML
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.types import Report
from cxc_eccv.types.models import describe_training_data

RESULTS = ".eval_results/cxc_eccv.yaml"

Text = tuple[str | None, str]
"""Text before, None for no file, and after."""

Done = Literal["opened", "updated", "nothing"]


@dataclass(frozen=True, slots=True)
class Submission:
    """A planned submission on the commit ``parent``: for each path, the text before and after."""

    repository: Repository
    parent: str
    files: Mapping[str, Text]
    title: str
    description: str
    account: str | None = None
    pull_request: Discussion | None = None
    notes: tuple[str, ...] = ()

    @property
    def pending(self) -> dict[str, str]:
        """Path to new text of the files that change."""
        return {path: after for path, (before, after) in self.files.items() if before != after}

    @property
    def diff(self) -> str:
        """Unified diff of all files."""
        return "\n".join(text_diff(before or "", after, path) for path, (before, after) in self.files.items())

    @property
    def plan(self) -> str:
        """A sentence that says what would be sent where."""
        if not self.pending:
            return f"{self.pull_request.url if self.pull_request else self.repository} has these results already"
        if self.pull_request:
            return f"would update pull request {self.pull_request.url}"
        return f"would open a new pull request to {self.repository}"

    def __str__(self) -> str:
        return "\n".join([*self.notes, self.diff, self.plan] if self.pending else [*self.notes, self.plan])

    def propose(self, replan: Callable[[], Submission]) -> tuple[str, Done]:
        """Open or update the pull request, planning again if something changed; return address and outcome."""
        self.repository.access.require_token()
        return repeat(Submission._propose, self, replan)

    def _propose(self) -> tuple[str, Done]:
        url = self.pull_request.url if self.pull_request else ""
        if not self.pending:
            return url or self.repository.url, "nothing"
        additions = [CommitOperationAdd(path, text.encode()) for path, text in self.pending.items()]
        if self.pull_request is None:
            commit = self.repository.commit(
                additions,
                self.title,
                parent=self.parent,
                pull_request=self.description,
                check=self._require_none_open,
            )
            return str(commit.pr_url), "opened"
        branch = _branch(self.pull_request)
        self.repository.commit(additions, self.title, parent=self.parent, branch=branch)
        if self.pull_request.num not in (request.num for request in self.repository.pull_requests(self.title)):
            raise HubConflict(f"{url} was merged or closed during the update. Run the command again.")
        return url, "updated"

    def _require_none_open(self) -> None:
        """Raise if the account has opened a pull request since the plan was made."""
        if opened := _find_ours(self.repository.pull_requests(self.title), self.account):
            raise HubConflict(f"{opened.url} was opened in the meantime. Run the command again.")


def _branch(pull_request: Discussion) -> str:
    return f"refs/pr/{pull_request.num}"


def _find_ours(pull_requests: Sequence[Discussion], account: str | None) -> Discussion | None:
    """The newest pull request that the account opened; those of others are not touched."""
    return next((request for request in pull_requests if account and request.author == account), None)


def plan_submission(
    path: str | Path, model: str, options: SubmitOptions, *, access: Access | None = None
) -> Submission:
    """Check a report against this package, the official data and the benchmark, and plan the pull request.

    Nothing is changed. Results for which the benchmark declares no task are left out.
    """
    if options.dataset is None:
        raise InvalidOption("name the released dataset that the results are about")
    access = access or Access()
    options.require_no_secret(access.token)
    report, files = checked_report(path)
    benchmark = check_benchmark(Repository(options.dataset, "dataset", access), files)
    tasks, left_out = _choose_tasks(report, options, benchmark.task_ids, path)
    data = report.provenance["data"]
    made = f"cxc_eccv {cxc_eccv.__version__}, data {data['version']}"
    if "trained_on" in report.provenance:
        made = f"trained on {describe_training_data(report.training_data)}; {made}"
    board = [
        (
            task,
            EvalResultEntry(
                dataset_id=options.dataset,
                task_id=task.task_id,
                value=report.scores[task.key],
                dataset_revision=benchmark.revision,
                date=options.date,
                source_url=options.source,
                notes=f"{options.notes}; {made}" if options.notes else made,
            ),
        )
        for task in tasks
    ]
    published = {entry.name for entry in load_catalog() if entry.sha256} | set(benchmark.sources)
    trusted = sorted(set(files) - published)
    notes = []
    if left_out:
        lines = [f"left out, because {options.dataset} declares no task for it:", *_group_by_place(left_out)]
        notes.append("\n".join(lines))
    notes += [f"not verified: {name}, whose authors publish no sha256" for name in trusted]
    planned = _plan_pull_request(Repository(model, "model", access), board, options)
    description = (
        f"Computed with `cxc-eccv evaluate` (cxc_eccv {cxc_eccv.__version__}) on version {data['version']} of the "
        f"official data, fingerprint `{data['fingerprint']}`, and checked by `cxc-eccv submit`."
    )
    return replace(planned, description=description, notes=(*notes, *planned.notes))


def check_submission(path: str | Path, options: SubmitOptions, token: str | None = None) -> str:
    """Check a report without the Hub, and describe what would be submitted; raises as :func:`checked_report` does."""
    options.require_no_secret(token)
    report, _ = checked_report(path)
    tasks, left_out = _choose_tasks(report, options, None, path)
    lines = [f"{path} passes every check that needs no network."]
    for main, title in (
        (True, "Results that the leaderboard shows by default:"),
        (False, "Results that count only where the dataset's eval.yaml declares them (push --all-tasks):"),
    ):
        values = [f"  {task.task_id}: {report.scores[task.key]:.4g}" for task in tasks if task.main is main]
        lines += [title, *values] if values else []
    if left_out:
        lines += ["Results that no leaderboard has a task for:", *_group_by_place(left_out)]
    dataset = "the released dataset, which --dataset names" if options.dataset is None else options.dataset
    lines.append(f"Not checked yet: the eval.yaml and the raw files of {dataset}.")
    return "\n".join(lines)


def _group_by_place(keys: Sequence[str]) -> list[str]:
    """A line for each task and direction, with its metrics."""
    groups: dict[str, list[str]] = {}
    for place, _, metric in (key.rpartition("/") for key in keys):
        groups.setdefault(place, []).append(metric)
    return [wrap(f"{place}: {', '.join(metrics)}", "  ", "    ") for place, metrics in groups.items()]


def _choose_tasks(
    report: Report, options: SubmitOptions, declared: Collection[str] | None, path: str | Path
) -> tuple[list[LeaderboardTask], list[str]]:
    """The tasks whose results are proposed; and keys of results that the benchmark declares no task for.

    ``declared`` are the ids of the benchmark's tasks; None for all that this package knows.
    """
    board = leaderboard_tasks().values()
    declared = [task.task_id for task in board] if declared is None else declared
    asked = select_tasks(options.tasks or ())
    wanted = {task.key for chosen in asked.values() for task in chosen}
    keys = [key for key in report.scores if key in wanted or not asked]
    tasks = [task for task in board if task.key in keys and task.task_id in declared]
    for name, chosen in asked.items():
        if not any(task.key in report.scores for task in chosen):
            raise ReportRefused(f"{path}: it has no result of {name}. Evaluate it too, or leave it out of --tasks.")
        if not any(task in tasks for task in chosen):
            raise ReportRefused(
                f"{options.dataset} declares no task for this report's results of {name}; its {EVAL_YAML} declares "
                f"{', '.join(sorted(declared))}. Leave {name} out of --tasks."
            )
    if not tasks and options.dataset is None:
        raise ReportRefused(f"{path}: the leaderboard has a task for none of its results")
    if not tasks:
        raise ReportRefused(
            f"{path}: {options.dataset} declares no task for any of its results. Is that the released dataset? Its "
            f"{EVAL_YAML} declares {', '.join(sorted(declared))}."
        )
    proposed = {task.key for task in tasks}
    return tasks, [key for key in keys if key not in proposed]


def _plan_pull_request(repository: Repository, board: Board, options: SubmitOptions) -> Submission:
    """Update the account's open pull request; else plan a new one, unless the results are there or proposed already."""
    new = replace(_plan_at(repository, board, options), account=repository.account())
    proposed = repository.pull_requests(new.title)
    if earlier := _find_ours(proposed, new.account):
        return replace(_plan_at(repository, board, options, earlier), account=new.account)
    if not new.pending:
        return new
    for theirs in proposed:
        try:
            planned = _plan_at(repository, board, options, theirs)
        except HubConflict:  # a fault in somebody else's pull request
            continue
        if not planned.pending:
            return planned
    notes = []
    if closed := _find_ours(repository.pull_requests(new.title, closed=True), new.account):
        notes.append(f"your earlier pull request {closed.url} was closed without being merged")
    if repository.is_private():
        notes.append(f"{repository.repo_id} is private: leaderboards show its results only after it becomes public")
    return replace(new, notes=tuple(notes))


def _plan_at(
    repository: Repository, board: Board, options: SubmitOptions, pull_request: Discussion | None = None
) -> Submission:
    """Plan the change of an open pull request, or of ``main`` for None."""
    parent = repository.head(_branch(pull_request) if pull_request else None)
    if parent is None:
        raise HubError(f"{repository} does not exist, or is private or gated and this token may not read it")
    paths = repository.files(parent)
    before = repository.text(RESULTS, parent) if RESULTS in paths else None
    files = {RESULTS: (before, merge_results(before, [entry for _, entry in board], f"{RESULTS} of {repository}"))}
    if options.model_index:
        card = repository.text(CARD, parent) if CARD in paths else None
        after = _add_results(card, board, repository.repo_id, f"{CARD} of {repository}")
        if card is not None and join_card(*split_card(card)) == after:
            after = card  # only line ends differ
        files[CARD] = (card, after)
    return Submission(repository, parent, files, f"Add results on {options.dataset}", "", None, pull_request)


Board = Sequence[tuple[LeaderboardTask, EvalResultEntry]]


LONGEST_NOTES = 300


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """Which results are submitted to which dataset, and what is published beside the numbers.

    Without ``tasks``, all that the benchmark declares are submitted. Only :func:`check_submission` needs no dataset.
    """

    dataset: str | None = None
    tasks: tuple[str, ...] | None = None
    date: str | None = None
    notes: str | None = None
    source: str | None = None
    model_index: bool = False

    def __post_init__(self) -> None:
        if self.tasks is not None and not self.tasks:
            raise InvalidOption("--tasks is empty; name tasks, as in eccv_caption,cxc/i2t")
        select_tasks(self.tasks or ())
        object.__setattr__(self, "date", _check_date(self.date))
        parts = urlsplit("https://none" if self.source is None else self.source)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidOption("the source is not a web address; expected https://...")
        if parts.username or parts.password:
            raise InvalidOption("the source contains a user name or a password and would be public. Remove them.")
        notes = self.notes or ""
        if len(notes) > LONGEST_NOTES or not (notes or " ").isprintable():
            raise InvalidOption(f"notes: expected one line of at most {LONGEST_NOTES} characters")

    def require_no_secret(self, token: str | None) -> None:
        """Raise if one of the texts, which become public, contains the token."""
        if token and any(token in text for text in (self.notes or "", self.source or "")):
            raise InvalidOption("the notes or the source contain your access token and would be public. Revoke it.")


def _check_date(date: str | None) -> str:
    """Check a date; None is today."""
    now = datetime.datetime.now(datetime.UTC)
    if date is None:
        return now.date().isoformat()
    try:
        moment = datetime.datetime.fromisoformat(date)
    except ValueError:
        raise InvalidOption(f"date {date!r}: expected a day of the calendar, as 2026-11-20") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    if moment > now + datetime.timedelta(hours=14):  # the earliest time zone
        raise InvalidOption(f"date {date!r} is in the future")
    return date


def merge_results(before: str | None, entries: Sequence[EvalResultEntry], where: str = RESULTS) -> str:
    """Add entries to the results file, replacing those of the same task; equal entries keep their date."""
    old_rows = [] if before is None else _read_rows(before, where)
    rows = {_place(row): row for row in old_rows}
    for row in eval_result_entries_to_yaml(list(entries)):
        if _without_date(rows.get(_place(row), {})) != _without_date(row):
            rows[_place(row)] = row
    if before is not None and old_rows == list(rows.values()):
        return before
    return str(yaml.safe_dump(list(rows.values()), sort_keys=False, allow_unicode=True, width=1000))


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
    """Add results to the ``model-index`` of a card, replacing those of the same dataset and metrics."""
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
    matter, body = split_card(card or "")
    index = read_matter(matter, where).get(INDEX) or [{"name": model, "results": []}]
    try:
        kept = [old for row in index[0]["results"] if (old := _drop_restated(row, board))]
        rows = [*kept, *eval_results_to_model_index(model, results)[0]["results"]]
    except (KeyError, TypeError, IndexError, AttributeError):
        raise HubConflict(
            f"{where}: its {INDEX} does not have the form the Hub documents. Correct or remove it."
        ) from None
    changed = [{**index[0], "results": rows}, *index[1:]]
    return join_card(replace_keys(matter, {INDEX: changed}, where), body)


def _drop_restated(row: dict[str, Any], board: Board) -> dict[str, Any] | None:
    """A row without the metrics that ``board`` has; None if no metric is left."""
    if row["dataset"].get("type") not in {entry.dataset_id for _, entry in board}:
        return row
    keys = {task.key for task, _ in board}
    metrics = [metric for metric in row["metrics"] if metric.get("name") not in keys]
    return {**row, "metrics": metrics} if metrics else None
