"""The folder of an annotation project: rounds, answers and decisions as JSON lines that are only added.

::

    FOLDER/rounds.jsonl     a line per round: the project, how pairs were proposed, the pairs, and the questions
    FOLDER/answers.jsonl    a line per sheet and person: what the person answered
    FOLDER/decisions.jsonl  a line per decision about a sheet, a person, a setting, the labels' terms or their words

Every line is complete in itself, and a later line corrects an earlier one. Lines are written at once, under one lock;
a last line that a killed process left unfinished is ignored, and removed by the next step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import parse_json, require_keys, shown
from cxc_eccv.studies.annotation.proposing import CANDIDATES, Proposal
from cxc_eccv.studies.asking.answers import describe_answer, identify_worker
from cxc_eccv.studies.asking.quality import Checks
from cxc_eccv.studies.asking.questions import Question, Questionnaire, pair_id
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.writing import locked

ROUNDS, ANSWERS, DECISIONS = "rounds.jsonl", "answers.jsonl", "decisions.jsonl"

PATIENCE = 60.0
"""Seconds to wait for another process that works on the same project."""

SETTINGS = ("least_seconds", "least_accuracy", "straight")
"""The settings of :class:`cxc_eccv.studies.asking.quality.Checks` that a decision may change."""

TERMS = {"version": str, "rule": str, "least_answers": int, "licence": str, "citation": str}
"""The options of ``annotate merge``, which hold until others are given."""

KEPT = ("pair_id", "answer", "details", "remark", "seconds", "origin")
"""What is stored of an answer, beside its sheet and worker."""

Row = Mapping[str, Any]
"""An answer as in :data:`cxc_eccv.studies.asking.answers.READ`."""


def hold(folder: Path) -> AbstractContextManager[None]:
    """Lock a project against other processes."""
    return locked(folder / ROUNDS, PATIENCE)


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the object of every line, none without a file; an unfinished last line is left out."""
    content = path.read_bytes() if path.is_file() else b""
    for number, line in enumerate(content[: _end_of_lines(content)].splitlines(), start=1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise MalformedSource(path, f"line {number}", str(error), "UTF-8 text") from None
        if text.strip():
            yield f"line {number}", require_keys(path, f"line {number}", parse_json(text, path, number), ())


def add_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Append lines after the last complete one; the caller holds the project."""
    content = path.read_bytes() if path.is_file() else b""
    end = _end_of_lines(content)
    text = "".join(json.dumps(line, sort_keys=True, allow_nan=False) + "\n" for line in lines).encode()
    with path.open("r+b" if content else "wb") as file:
        file.truncate(end)
        file.seek(end)
        file.write(text if content[:end].endswith(b"\n") or not end else b"\n" + text)


def _end_of_lines(content: bytes) -> int:
    """The length of the complete lines; an editor may leave the last one without a line feed."""
    end = content.rfind(b"\n") + 1
    try:
        json.loads(content[end:])
    except ValueError:
        return end
    return len(content)


@dataclass(frozen=True, eq=False)
class Round:
    """A round: proposed pairs and their sheets."""

    number: int  # from 1 on
    proposal: Mapping[str, Any]  # facts of the strategy
    candidates: pa.Table  # of CANDIDATES
    known: pa.Table  # of CANDIDATES
    questionnaire: Questionnaire  # sheets are numbered from its ``first`` on

    @property
    def sheets(self) -> Sequence[Sequence[Question]]:
        """The sheets in the order of their numbers."""
        return self.questionnaire.sheets

    @property
    def numbers(self) -> range:
        """The numbers of the sheets, which count across all rounds."""
        return range(self.questionnaire.first, self.questionnaire.first + len(self.sheets))


def add_round(
    folder: Path, number: int, project: Mapping[str, Any], proposal: Proposal, questionnaire: Questionnaire
) -> None:
    """Add a round; ``project`` are the facts that all rounds share."""
    line = {
        "round": number,
        "project": project,
        "questionnaire": questionnaire.id,
        "asks_for_reasons": questionnaire.scheme == schemes()[questionnaire.scheme.name],
        "proposal": proposal.facts,
        "candidates": proposal.candidates.to_pydict(),
        "known": proposal.known.to_pydict(),
        "sheets": [[asdict(question) for question in sheet] for sheet in questionnaire.sheets],
    }
    add_lines(folder / ROUNDS, [line])


def read_rounds(folder: Path) -> tuple[dict[str, Any], tuple[Round, ...]]:
    """The facts of the project, empty without a round, and its rounds."""
    path, project, rounds = folder / ROUNDS, dict[str, Any](), list[Round]()
    for place, line in read_lines(path):
        require_keys(path, place, line, ("round", "project"))
        project = project or line["project"]
        if (line["round"], line["project"]) != (len(rounds) + 1, project):
            number, expected = shown(line["round"]), f"round {len(rounds) + 1} of the project of line 1"
            raise MalformedSource(path, place, f"round {number}, perhaps of another project", expected)
        try:
            rounds.append(_to_round(line, rounds[-1].numbers.stop if rounds else 0))
        except (KeyError, TypeError, AttributeError, ValueError, pa.ArrowException) as error:
            raise MalformedSource(path, place, repr(error), "a round as annotate propose writes it") from None
    return project, tuple(rounds)


def _to_round(line: Mapping[str, Any], first: int) -> Round:
    scheme = schemes()[line["project"]["scheme"]]
    sheets = [
        [Question(**asked | {"captions": tuple(asked["captions"])}) for asked in sheet] for sheet in line["sheets"]
    ]
    for question in (question for sheet in sheets for question in sheet):
        if question.pair_id != pair_id(question.image_id, question.caption_id, question.caption + question.other):
            raise ValueError(f"question {question.pair_id} does not match its id")
    asked_as = scheme if line["asks_for_reasons"] else scheme.without_reasons()
    questionnaire = Questionnaire(asked_as, sheets, first)
    if questionnaire.id != line["questionnaire"]:
        raise ValueError("its questions do not match the questionnaire's id")
    candidates, known = (pa.Table.from_pydict(line[name], schema=CANDIDATES) for name in ("candidates", "known"))
    return Round(line["round"], line["proposal"], candidates, known, questionnaire)


def add_answers(folder: Path, rows: Sequence[Row]) -> None:
    """Add answers, a line per sheet and person."""
    lines: dict[tuple[int, str], dict[str, Any]] = {}
    for row in rows:
        line = {"sheet": row["sheet"], "worker": row["worker"], "answers": []}
        stored = {name: row[name] for name in KEPT} | {name: json.loads(row[name]) for name in ("answer", "details")}
        lines.setdefault((row["sheet"], row["worker"]), line)["answers"].append(stored)
    add_lines(folder / ANSWERS, [lines[key] for key in sorted(lines)])


def read_answers(folder: Path, rounds: Sequence[Round]) -> list[Row]:
    """The answers that count; sheets and people in the order in which they were answered."""
    path, latest = folder / ANSWERS, dict[tuple[int, str], dict[str, Row]]()
    asked = {number: (each, each.sheets[number - each.numbers.start]) for each in rounds for number in each.numbers}
    for place, line in read_lines(path):
        require_keys(path, place, line, ("sheet", "worker", "answers"))
        if type(line["sheet"]) is not int or line["sheet"] not in asked or not isinstance(line["answers"], list):
            there = f"sheet {shown(line['sheet'])} of {shown(line['worker'])}"
            raise MalformedSource(path, place, there, f"answers to one of the {len(asked)} sheets in {ROUNDS}")
        round_, sheet = asked[line["sheet"]]
        questions = {question.pair_id: question for question in sheet}
        for answer in line["answers"]:
            require_keys(path, place, answer, KEPT)
            if answer["pair_id"] not in questions:
                raise MalformedSource(path, place, f"pair_id {shown(answer['pair_id'])}", "a question of its sheet")
            question = questions[answer["pair_id"]]
            record = answer | {"worker": line["worker"]}
            row = describe_answer(path, place, record, line["sheet"], question, round_.questionnaire.scheme)
            latest.setdefault((line["sheet"], row["worker"]), {})[answer["pair_id"]] = row | {
                "origin": answer["origin"]
            }
    return [
        said[question.pair_id]
        for key, said in latest.items()
        for question in asked[key[0]][1]
        if question.pair_id in said
    ]


def add_decisions(
    folder: Path, sheets: Mapping[tuple[int, str], bool], workers: Mapping[str, bool], settings: Mapping[str, Any]
) -> None:
    """Add decisions: whether sheets and people are accepted, and new settings."""
    lines: list[dict[str, Any]] = [
        {"sheet": sheet, "worker": worker, "accepted": good} for (sheet, worker), good in sorted(sheets.items())
    ]
    lines += [{"worker": worker, "accepted": good} for worker, good in sorted(workers.items())]
    add_lines(folder / DECISIONS, [*lines, *([dict(settings)] if settings else [])])


@dataclass(frozen=True)
class Decisions:
    """The decisions that hold."""

    checks: Checks
    terms: Mapping[str, Any]  # those of TERMS that were given
    # Sheet and person to the words in which they were asked, "" for anybody; the scheme's if there is no entry.
    words: Mapping[tuple[int, str], Mapping[str, Any]]


def add_words(folder: Path, sheets: Sequence[int], worker: str, words: Mapping[str, Any]) -> None:
    """Add the words in which a person, or anybody if ``worker`` is empty, is asked about some sheets."""
    add_lines(folder / DECISIONS, [{"sheets": list(sheets), "worker": worker, "words": words}])


def read_decisions(folder: Path) -> Decisions:
    """The decisions and settings that hold; the defaults if nothing was decided."""
    path, by_hand, workers = folder / DECISIONS, dict[tuple[int, str], bool](), set[str]()
    settings, terms, words = dict[str, Any](), dict[str, Any](), dict[tuple[int, str], Mapping[str, Any]]()
    for place, line in read_lines(path):
        good, worker, sheet = line.get("accepted"), line.get("worker"), line.get("sheet")
        if set(line) <= set(SETTINGS):
            settings |= line
        elif all(type(value) is TERMS.get(name) for name, value in line.items()):
            terms |= line
        elif set(line) == {"sheets", "worker", "words"}:
            words |= {(number, str(worker)): line["words"] for number in line["sheets"]}
        elif type(good) is not bool or type(worker) is not str or not isinstance(sheet, int | None):
            expected = f"worker and accepted, perhaps sheet; or some of {', '.join([*SETTINGS, *TERMS])}"
            raise MalformedSource(path, place, shown(line), expected)
        elif sheet is not None:
            by_hand[sheet, identify_worker(worker)] = good
        else:
            (workers.discard if good else workers.add)(identify_worker(worker))
    try:
        return Decisions(Checks(by_hand=by_hand, rejected_workers=frozenset(workers), **settings), terms, words)
    except (TypeError, InvalidOption) as error:
        raise MalformedSource(path, "", str(error), "settings as annotate check writes them") from None
