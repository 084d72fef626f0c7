"""Submission: a pull request that adds a checked report's results to its model's repository.

The pull request writes ``.eval_results/cxc_eccv.yaml``. A second submission updates the pull request of the first while
that is open.
"""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from huggingface_hub import (
    CommitOperationAdd,
    Discussion,
    EvalResultEntry,
    HfApi,
    eval_result_entries_to_yaml,
    get_token,
    parse_eval_result_entries,
)

from cxc_eccv.errors import HubConflict, InvalidOption, ReportRefused
from cxc_eccv.hub import find_benchmark
from cxc_eccv.hub.checks import Benchmark, check_same_files, checked_report, read_benchmark
from cxc_eccv.hub.client import hub_client, read_text, require_token
from cxc_eccv.hub.leaderboard import EVAL_YAML, LeaderboardTask, leaderboard_tasks, select_tasks
from cxc_eccv.report import Report
from cxc_eccv.runs.load import name_file
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.terminal import visible
from cxc_eccv.wording import CHECK_FIRST

RESULTS = ".eval_results/cxc_eccv.yaml"

LONGEST_NOTES = 300

MADE_BY = "cxc_eccv "
"""In the notes of an entry, behind what describes the result and before the versions."""

OLD_KEYS = ("verifyToken", "verify_token", "date", "source")
"""Keys of a row that describe its value, and not another one."""


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """Which results are submitted, and what is published beside the numbers.

    Without ``tasks``, all that the dataset declares are submitted. ``date`` is the day of the run; without it the
    entries have none, because a report does not say when it was made.
    """

    tasks: tuple[str, ...] | None = None
    notes: str | None = None
    source: str | None = None
    date: str | None = None

    def __post_init__(self) -> None:
        if self.tasks is not None and not self.tasks:
            raise InvalidOption("--tasks is empty; name tasks, as in eccv_caption,cxc/i2t")
        select_tasks(self.tasks or ())
        if self.source is not None and urlsplit(self.source).scheme not in ("http", "https"):
            raise InvalidOption("the source is not a web address; expected https://...")
        if len(self.notes or "") > LONGEST_NOTES or not (self.notes or " ").isprintable():
            raise InvalidOption(f"notes: expected one line of at most {LONGEST_NOTES} characters")
        if self.date is not None:
            _check_date(self.date)


def _check_date(text: str) -> None:
    """Refuse a day that is none, or that no clock on Earth has reached."""
    latest = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=1)
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        day = datetime.date.max
    if day.isoformat() != text or day > latest:
        raise InvalidOption(f"date: found {text!r}, expected the day of the run, such as 2026-05-31")


@dataclass(frozen=True, slots=True)
class Submission:
    """A planned pull request to the repository of a model.

    Attributes:
        model: the repository.
        files: path to the new text of each file that changes.
        title, description: those of the pull request.
        parent: the commit that the files were read from.
        opened: the account's open pull request, which is updated; None for a new one.
        notes: what to know about it.
        doubts: what makes the report's numbers suspect.
        report_model: name of the report's model, or of its run file; empty if it has none.
        is_of_another: whether that name is not the repository's.
    """

    model: str
    files: Mapping[str, str]
    title: str
    description: str
    parent: str
    opened: Discussion | None = None
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    report_model: str = ""
    is_of_another: bool = False

    def __str__(self) -> str:
        texts = [f"--- {path}\n{text}" for path, text in self.files.items()]
        if not self.files:
            plan = f"{self.opened.url if self.opened else self.model} has these results already"
        elif self.opened:
            plan = f"would update pull request {self.opened.url}"
        else:
            plan = f"would open a new pull request to model {self.model}"
        names = [f"model of the report: {visible(self.report_model) or 'not named'}", f"repository: {self.model}"]
        return "\n".join([*_list_doubts(self.doubts), *names, *self.notes, *texts, plan])

    def send(self) -> str:
        """Open or update the pull request, and return its address."""
        require_token()
        with hub_client(f"propose results to {self.model}") as api:
            commit = api.create_commit(
                self.model,
                [CommitOperationAdd(path, text.encode()) for path, text in self.files.items()],
                commit_message=self.title,
                commit_description=self.description,
                revision=self.opened.git_reference if self.opened else None,
                create_pr=self.opened is None,
                parent_commit=self.parent,
            )
        return self.opened.url if self.opened else str(commit.pr_url)


def plan_submission(path: str | Path, model: str, dataset: str, options: SubmitOptions) -> Submission:
    """Check a report against this package, the official data and the benchmark, and plan the pull request.

    Nothing is changed. Results for which the benchmark ``dataset`` declares no task are left out.
    """
    report = checked_report(path)
    with hub_client(f"read dataset {dataset}") as api:
        benchmark = read_benchmark(api, dataset)
    check_same_files(report, benchmark)
    tasks, left_out = _choose_tasks(report, options, benchmark, path)
    entries = [_make_entry(report, task, options, benchmark) for task in tasks]
    notes = []
    if left_out:
        notes = [f"left out, because {dataset} declares no task for it:", *_group_by_place(left_out)]
    data = report.provenance.data
    package = report.provenance.package
    published = {entry.name for entry in load_catalog() if entry.sha256} | set(benchmark.sources)
    unpublished = sorted(set(data.files) - published)
    notes += [f"not verified: {name}, whose authors publish no sha256" for name in unpublished]
    description = (
        f"Computed with `cxc-eccv evaluate` (cxc_eccv {package.version}) on version {data.version} of the official "
        f"data, fingerprint `{data.fingerprint}`, and checked by `cxc-eccv submit`."
    )
    title = f"Add results on {dataset}"
    with hub_client(f"read model {model}") as api:
        opened = _find_opened(api, model, title)
        info = api.repo_info(model, revision=opened.git_reference if opened else None)
        if info.private:
            notes.append(f"{model} is private: leaderboards show its results only after it becomes public")
        before = read_text(api, model, "model", RESULTS, str(info.sha))
    after = merge_results(before, entries, f"{RESULTS} of {model}")
    files = {} if after == before else {RESULTS: after}
    return Submission(
        model=model,
        files=files,
        title=title,
        description=description,
        parent=str(info.sha),
        opened=opened,
        notes=tuple(notes),
        doubts=tuple(report.doubts.values()),
        report_model=report.model,
        is_of_another=_is_of_another(report, model),
    )


def _is_of_another(report: Report, repository: str) -> bool:
    """Whether a report names a model, or is of a file, that is not called like the repository of a model."""
    name = report.provenance.model or name_file(Path(report.provenance.run.file or ""))
    return bool(name) and name.casefold() not in (repository.casefold(), repository.rpartition("/")[2].casefold())


def check_submission(path: str | Path, dataset: str | None, options: SubmitOptions) -> str:
    """Check a report without the Hub, and describe what would be submitted; raises as :func:`checked_report` does.

    The benchmark ``dataset`` is only named in the text.
    """
    report = checked_report(path)
    tasks, left_out = _choose_tasks(report, options, None, path)
    lines = [f"{path} passes every check that needs no network.", *_list_doubts(report.doubts.values())]
    if main := [f"  {task.task_id}: {report.scores[task.key]:.4g}" for task in tasks if task.main]:
        lines += ["Results that the leaderboard shows by default:", *main]
    for title, keys in (
        ("Results that count only where the dataset's eval.yaml declares them:", [t.key for t in tasks if not t.main]),
        ("Results that no leaderboard has a task for:", left_out),
    ):
        lines += [title, *_group_by_place(keys)] if keys else []
    benchmark = dataset or find_benchmark() or "the benchmark's dataset"
    lines.append(f"Not checked yet: the eval.yaml and the raw files of {benchmark}.")
    return "\n".join(lines)


def _list_doubts(doubts: Iterable[str]) -> list[str]:
    lines = [f"  - {visible(sentence)}" for sentence in doubts]
    return [f"{CHECK_FIRST}:", *lines] if lines else []


def _group_by_place(keys: Sequence[str]) -> list[str]:
    """A line for each task and direction, with its metrics."""
    groups: dict[str, list[str]] = {}
    for place, _, metric in (key.rpartition("/") for key in keys):
        groups.setdefault(place, []).append(metric)
    return [f"  {place}: {', '.join(metrics)}" for place, metrics in groups.items()]


def _choose_tasks(
    report: Report, options: SubmitOptions, benchmark: Benchmark | None, path: str | Path
) -> tuple[list[LeaderboardTask], list[str]]:
    """The tasks whose results are proposed; and keys of results that the benchmark declares no task for.

    Without a benchmark, all tasks that this package knows count as declared.
    """
    asked = select_tasks(options.tasks or ())
    keys = list(report.scores)
    if asked:
        asked_keys = {task.key for task in chain.from_iterable(asked.values())}
        keys = [key for key in keys if key in asked_keys]
    board = leaderboard_tasks().values()
    known = [task for task in board if benchmark is None or task.task_id in benchmark.task_ids]
    tasks = [task for task in known if task.key in keys]
    lacking = [name for name, tasks_of_name in asked.items() if not set(tasks_of_name).intersection(tasks)]
    if lacking or not tasks:
        where = "the leaderboard" if benchmark is None else benchmark.repository
        its = "" if benchmark is None else f" Its {EVAL_YAML} declares {', '.join(sorted(benchmark.task_ids))}."
        raise ReportRefused(
            f"{path} has no result of {', '.join(lacking) or 'any task'} that {where} "
            f"has a task for. Evaluate it too, leave it out of --tasks, or name another --dataset.{its}"
        )
    proposed = {task.key for task in tasks}
    return tasks, [key for key in keys if key not in proposed]


def _make_entry(report: Report, task: LeaderboardTask, options: SubmitOptions, benchmark: Benchmark) -> EvalResultEntry:
    made = f"{MADE_BY}{report.provenance.package.version}, data {report.provenance.data.version}"
    if report.provenance.trained_on:
        made = f"trained on {report.trained_on}; {made}"
    return EvalResultEntry(
        dataset_id=benchmark.repository,
        task_id=task.task_id,
        value=report.scores[task.key],
        dataset_revision=benchmark.revision,
        date=options.date,
        source_url=options.source,
        notes=f"{options.notes}; {made}" if options.notes else made,
    )


def _find_opened(api: HfApi, model: str, title: str) -> Discussion | None:
    """The account's newest open pull request of this title; those of others are not touched."""
    if not get_token():
        return None
    author = api.whoami()["name"]
    opened = api.get_repo_discussions(model, author=author, discussion_type="pull_request", discussion_status="open")
    return max((one for one in opened if one.title == title), key=lambda one: one.num, default=None)


def merge_results(before: str | None, entries: Sequence[EvalResultEntry], where: str = RESULTS) -> str:
    """Add entries to the text of a results file.

    An entry of the same task with another value gets the new one and loses what described the old one. Entries that say
    the same, all other entries and keys, and comments stay as they are.
    """
    proposed = eval_result_entries_to_yaml(list(entries))
    if before is None:
        return _dump(proposed)
    rows = _read_rows(before, where)
    sequence: Any = yaml.compose(before)  # where the rows stand in the text
    changes: dict[int, dict[str, Any]] = {}
    added = []
    for new in proposed:
        name = _name_task(new)
        places = [place for place, row in enumerate(rows) if _name_task(row) == name]
        if len(places) > 1:
            raise HubConflict(f"{where} has {len(places)} results of {name[1]}. Leave one of them, or use --tasks.")
        if not places:
            added.append(new)
        elif change := _find_changes(rows[places[0]], new):
            changes[places[0]] = change
    if not changes and not added:
        return before
    text = before
    for place in sorted(changes, reverse=True):  # from the end, so that the marks of earlier rows stay true
        text = _edit_mapping(text, sequence.value[place], changes[place])
        rows[place] = _update(rows[place], changes[place])
    if added:
        indent = " " * sequence.start_mark.column
        text = f"{text.rstrip()}\n{textwrap.indent(_dump(added), indent)}"
    return _check_edited(text, before, [*rows, *added], where)


def _read_rows(text: str, where: str) -> list[dict[str, Any]]:
    try:
        rows = yaml.safe_load(text)
        parse_eval_result_entries(rows)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError):
        raise HubConflict(
            f"{where} is not a list of results with dataset.id, dataset.task_id and value. Correct or delete it."
        ) from None
    return list(rows)


def _dump(content: object) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000))


def _name_task(row: dict[str, Any]) -> tuple[str, str]:
    return row["dataset"]["id"], row["dataset"]["task_id"]


def _find_changes(row: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Keys of a row to new values, None to remove them; empty if the row says what the new one does.

    Another revision of the dataset, or version of this package, is no new result.
    """
    changes = dict(new)
    if "source" in new:
        changes["source"] = {**dict.fromkeys(("name", "user", "org")), **new["source"]}
    if row["value"] != new["value"]:
        return {**dict.fromkeys(OLD_KEYS), **changes}
    setting = str(new.get("notes", "")).rpartition(MADE_BY)[0]
    said = {"dataset", "value"}
    if setting in str(row.get("notes", "")):
        said.add("notes")
    if str(row.get("date")) == new.get("date"):
        said.add("date")
    if row.get("source") == new.get("source"):
        said.add("source")
    return {key: value for key, value in changes.items() if key not in said}


def _update(row: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The row after the changes."""
    updated = {key: value for key, value in row.items() if key not in changes}
    for key, value in changes.items():
        if isinstance(value, dict):
            updated[key] = _update(row.get(key) or {}, value)
        elif value is not None:
            updated[key] = value
    return updated


def _edit_mapping(text: str, mapping: yaml.MappingNode, changes: dict[str, Any]) -> str:
    """The text after changes of a mapping in it, made from its end so that earlier marks stay true."""
    keys = {key.value for key, _ in mapping.value}
    added = _update({}, {key: value for key, value in changes.items() if key not in keys})
    if added:
        end = _find_line_end(text, _find_end(mapping))
        lines = textwrap.indent(_dump(added).rstrip(), " " * mapping.start_mark.column)
        text = f"{text[:end]}\n{lines}{text[end:]}"
    for key, node in reversed(mapping.value):
        if key.value not in changes:
            continue
        value = changes[key.value]
        if isinstance(value, dict) and isinstance(node, yaml.MappingNode):
            text = _edit_mapping(text, node, value)
        elif value is None:
            text = _cut(text, key.start_mark.index, _find_end(node))
        else:
            shown = _dump({"": value}).partition(": ")[2].rstrip()
            text = f"{text[: node.start_mark.index]}{shown}{text[node.end_mark.index :]}"
    return text


def _find_end(node: yaml.Node) -> int:
    """Where a node ends; the mark of one in block style stands behind the comments that follow it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _find_end(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return _find_end(node.value[-1])
    return int(node.end_mark.index)


def _find_line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end == -1 else end


def _cut(text: str, start: int, end: int) -> str:
    """The text without a part, and without its line if nothing else stands there."""
    line = text.rfind("\n", 0, start) + 1
    line_end = _find_line_end(text, end)
    if not (text[line:start] + text[end:line_end]).strip():
        return text[:line] + text[line_end + 1 :]
    return text[:start] + text[end:]


def _check_edited(text: str, before: str, rows: list[dict[str, Any]], where: str) -> str:
    """The edited text if it holds the rows; else, as for a list in flow style, a new one if no comment is lost."""
    try:
        if yaml.safe_load(text) == rows:
            return text
    except yaml.YAMLError:
        pass
    if "#" in before:
        raise HubConflict(f"{where} cannot be changed without losing comments. Write it with one key a line.")
    return _dump(rows)
