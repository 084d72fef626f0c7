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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.damage import refuse_damage
from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import parse_json, require_keys, shown
from cxc_eccv.studies.annotation.proposing import CANDIDATES, ProposalFacts
from cxc_eccv.studies.asking.answer_files import AskedQuestion, Response, check_answer, identify_worker
from cxc_eccv.studies.asking.questionnaire import Words
from cxc_eccv.studies.asking.questions import Question, Questionnaire, find_questionnaires, pair_id
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.sheet_quality import Checks
from cxc_eccv.writing import append_lines, locked, read_whole_lines

ROUNDS = "rounds.jsonl"
ANSWERS = "answers.jsonl"
DECISIONS = "decisions.jsonl"

PATIENCE = 60.0
"""Seconds to wait for another process that works on the same project."""

SETTINGS = ("least_seconds", "least_accuracy", "straight")
"""The settings of :class:`cxc_eccv.studies.asking.sheet_quality.Checks` that a decision may change."""

TERMS = {"version": str, "rule": str, "least_answers": int, "licence": str, "citation": str}
"""The types of :class:`Terms`."""

STORED = ("pair_id", "answer", "details", "remark", "seconds", "origin")
"""What is stored of an answer, beside its sheet and worker."""

SheetKey = tuple[int, str]
"""Number of a sheet, and a person."""

Line = dict[str, Any]
"""A JSON object of a file."""


def measure_files(folder: Path) -> tuple[int, ...]:
    """The sizes of the three files, which tell whether anything was added."""
    paths = [folder / name for name in (ROUNDS, ANSWERS, DECISIONS)]
    return tuple(path.stat().st_size if path.is_file() else 0 for path in paths)


def hold(folder: Path) -> AbstractContextManager[None]:
    """Lock a project against other processes."""
    return locked(folder / ROUNDS, PATIENCE)


def read_lines(path: Path) -> Iterator[tuple[str, Line]]:
    """Yield the place and the object of every line, none without a file; an unfinished last line is left out."""
    for number, line in enumerate(read_whole_lines(path), start=1):
        with refuse_damage(path, f"line {number}"):
            text = line.decode()
        if text.strip():
            yield f"line {number}", require_keys(path, f"line {number}", parse_json(text, path, number), ())


def add_lines(path: Path, lines: Sequence[Line]) -> None:
    """Append lines after the last complete one; the caller holds the project."""
    append_lines(path, [json.dumps(line, sort_keys=True, allow_nan=False) for line in lines])


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """The data that a project is about."""

    captions: int  # their number
    content: str  # fingerprint of the split
    edition: str
    images: int
    version: str  # of the data


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """What all rounds of a project share."""

    name: str  # of the source of labels that it makes
    scheme: str
    split: str
    seed: int  # seed of all draws; the sheets of round N are drawn with seed + N - 1
    data: SplitFacts


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """A round: proposed pairs and their sheets."""

    number: int  # from 1 on
    facts: ProposalFacts
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
        return self.questionnaire.numbers


def add_round(folder: Path, project: ProjectFacts, added: Round) -> None:
    """Add a round."""
    questionnaire = added.questionnaire
    line = {
        "round": added.number,
        "project": asdict(project),
        "questionnaire": questionnaire.id,
        "asks_for_reasons": questionnaire.scheme == schemes()[project.scheme],
        "proposal": added.facts.to_json(),
        "candidates": added.candidates.to_pydict(),
        "known": added.known.to_pydict(),
        "sheets": [list(map(asdict, sheet)) for sheet in questionnaire.sheets],
    }
    add_lines(folder / ROUNDS, [line])


def read_rounds(folder: Path) -> tuple[ProjectFacts | None, tuple[Round, ...]]:
    """The facts of the project and its rounds; None without a round."""
    path = folder / ROUNDS
    project = dict[str, Any]()
    rounds = list[Round]()
    facts = None
    for place, line in read_lines(path):
        require_keys(path, place, line, ("round", "project"))
        project = project or line["project"]
        if (line["round"], line["project"]) != (len(rounds) + 1, project):
            number = shown(line["round"])
            expected = f"round {len(rounds) + 1} of the project of line 1"
            raise MalformedSource(path, place, f"round {number}, perhaps of another project", expected)
        try:
            facts = ProjectFacts(**project | {"data": SplitFacts(**project["data"])})
            rounds.append(_read_round(line, rounds[-1].numbers.stop if rounds else 0))
        except (KeyError, TypeError, AttributeError, ValueError, pa.ArrowException) as error:
            raise MalformedSource(path, place, repr(error), "a round as annotate propose writes it") from None
    return facts, tuple(rounds)


def _read_round(line: Line, first: int) -> Round:
    scheme = schemes()[line["project"]["scheme"]]
    sheets = [list(map(_read_question, sheet)) for sheet in line["sheets"]]
    asked_as = scheme if line["asks_for_reasons"] else scheme.without_reasons()
    questionnaire = Questionnaire(asked_as, sheets, first)
    if questionnaire.id != line["questionnaire"]:
        raise ValueError("its questions do not match the questionnaire's id")
    candidates, known = (pa.Table.from_pydict(line[name], schema=CANDIDATES) for name in ("candidates", "known"))
    return Round(line["round"], ProposalFacts(**line["proposal"]), candidates, known, questionnaire)


def _read_question(stored: Line) -> Question:
    question = Question(**stored | {"captions": tuple(stored["captions"])})
    if question.pair_id != pair_id(question.image_id, question.caption_id, question.caption + question.other):
        raise ValueError(f"question {question.pair_id} does not match its id")
    return question


def add_answers(folder: Path, responses: Sequence[Response]) -> None:
    """Add answers, a line per sheet and person."""
    lines: dict[SheetKey, Line] = {}
    for response in responses:
        line = {"sheet": response.sheet, "worker": response.worker, "answers": []}
        stored = {name: getattr(response, name) for name in STORED}
        stored |= {name: json.loads(stored[name]) for name in ("answer", "details")}
        lines.setdefault(response.key, line)["answers"].append(stored)
    add_lines(folder / ANSWERS, [lines[key] for key in sorted(lines)])


def read_answers(folder: Path, rounds: Sequence[Round]) -> list[Response]:
    """The answers that count; sheets and people in the order in which they were answered."""
    path = folder / ANSWERS
    latest = dict[SheetKey, dict[str, Response]]()
    asked_on = find_questionnaires(each.questionnaire for each in rounds)
    for place, line in read_lines(path):
        require_keys(path, place, line, ("sheet", "worker", "answers"))
        number = line["sheet"]
        if type(number) is not int or number not in asked_on or not isinstance(line["answers"], list):
            there = f"sheet {shown(number)} of {shown(line['worker'])}"
            raise MalformedSource(path, place, there, f"answers to one of the {len(asked_on)} sheets in {ROUNDS}")
        sheet = asked_on[number].sheet(number)
        questions = {question.pair_id: (index, question) for index, question in enumerate(sheet)}
        for answer in line["answers"]:
            require_keys(path, place, answer, STORED)
            if answer["pair_id"] not in questions:
                raise MalformedSource(path, place, f"pair_id {shown(answer['pair_id'])}", "a question of its sheet")
            asked = AskedQuestion(asked_on[number], number, *questions[answer["pair_id"]])
            response = check_answer(path, place, answer | {"worker": line["worker"]}, asked)
            of_sheet = latest.setdefault(response.key, {})
            of_sheet[response.pair_id] = replace(response, origin=answer["origin"])
    responses: list[Response] = []
    for (number, _), by_pair in latest.items():
        answered = [question.pair_id for question in asked_on[number].sheet(number) if question.pair_id in by_pair]
        responses += [by_pair[pair] for pair in answered]
    return responses


@dataclass(frozen=True, slots=True)
class Decision:
    """What is decided at once: whether sheets and people count, and settings of checks, None for no change."""

    sheets: Mapping[SheetKey, bool] = field(default_factory=dict)
    workers: Mapping[str, bool] = field(default_factory=dict)
    least_seconds: float | None = None
    least_accuracy: float | None = None
    straight: bool | None = None

    @property
    def settings(self) -> Line:
        """The settings that change."""
        return {name: value for name in SETTINGS if (value := getattr(self, name)) is not None}


def add_decision(folder: Path, decision: Decision) -> None:
    """Add a decision."""
    lines: list[Line] = [
        {"sheet": sheet, "worker": worker, "accepted": good}
        for (sheet, worker), good in sorted(decision.sheets.items())
    ]
    lines += [{"worker": worker, "accepted": good} for worker, good in sorted(decision.workers.items())]
    add_lines(folder / DECISIONS, [*lines, *([decision.settings] if decision.settings else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The options of ``annotate merge``, each None if it is not given; they hold until others are given."""

    version: str | None = None  # of the labels
    rule: str | None = None  # of :func:`cxc_eccv.studies.asking.settling.settle`
    least_answers: int | None = None  # pairs with answers of fewer people get no label
    licence: str | None = None  # an id of the Hub such as ``cc-by-4.0``
    citation: str | None = None  # in BibTeX

    def __or__(self, other: Terms) -> Terms:
        """These terms, but for those that the other has."""
        return replace(self, **other.to_json())

    def to_json(self) -> Line:
        """The terms that are given."""
        return {name: term for name in TERMS if (term := getattr(self, name)) is not None}


def add_terms(folder: Path, terms: Terms) -> None:
    """Add terms of the labels."""
    add_lines(folder / DECISIONS, [terms.to_json()])


def add_words(folder: Path, sheets: Sequence[int], worker: str, words: Words) -> None:
    """Add the words in which a person, or anybody if ``worker`` is empty, is asked about some sheets."""
    add_lines(folder / DECISIONS, [{"sheets": list(sheets), "worker": worker, "words": words}])


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions that hold."""

    checks: Checks = field(default_factory=Checks)
    terms: Terms = field(default_factory=Terms)
    # In which a person was asked, "" for anybody; the scheme's if there is no entry.
    words: Mapping[SheetKey, Words] = field(default_factory=dict)


def read_decisions(folder: Path) -> Decisions:
    """The decisions and settings that hold; the defaults if nothing was decided."""
    path = folder / DECISIONS
    try:
        return _read_decisions(path)
    except (TypeError, InvalidOption) as error:
        raise MalformedSource(path, "", str(error), "settings as annotate check writes them") from None


def _read_decisions(path: Path) -> Decisions:
    by_hand = dict[SheetKey, bool]()
    rejected_workers = set[str]()
    settings = dict[str, Any]()
    terms = Terms()
    words = dict[SheetKey, Words]()
    for place, line in read_lines(path):
        good = line.get("accepted")
        worker = line.get("worker")
        sheet = line.get("sheet")
        if set(line) <= set(SETTINGS):
            settings |= line
        elif all(type(value) is TERMS.get(name) for name, value in line.items()):
            terms |= Terms(**line)
        elif set(line) == {"sheets", "worker", "words"}:
            words |= {(number, str(worker)): line["words"] for number in line["sheets"]}
        elif type(good) is not bool or type(worker) is not str or not isinstance(sheet, int | None):
            expected = f"worker and accepted, perhaps sheet; or some of {', '.join([*SETTINGS, *TERMS])}"
            raise MalformedSource(path, place, shown(line), expected)
        elif sheet is not None:
            by_hand[sheet, identify_worker(worker)] = good
        else:
            (rejected_workers.discard if good else rejected_workers.add)(identify_worker(worker))
    checks = Checks(by_hand=by_hand, rejected_workers=frozenset(rejected_workers), **settings)
    return Decisions(checks, terms, words)
