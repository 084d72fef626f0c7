"""Read people's answers, and check every line against its question."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import require_keys, shown
from cxc_eccv.studies.asking.formats import ACCOUNT, Record, find_format
from cxc_eccv.studies.asking.questions import Question, Questionnaire, find_questionnaires

ANSWER_SCHEMA = pa.schema(
    [
        ("sheet", pa.int32()),
        ("pair_id", pa.string()),
        ("image_id", pa.int64()),
        ("caption_id", pa.int64()),
        ("role", pa.string()),
        ("worker", pa.string()),
        ("answer", pa.string()),
        ("gain", pa.float64()),
        ("positive", pa.bool_()),
        ("details", pa.string()),
        ("remark", pa.string()),
        ("seconds", pa.float64()),
    ]
)
"""``answer`` and ``details`` are JSON, equal for equal answers of all formats; ``remark`` is free text, shown unparsed;
``seconds`` is null if the format has no times."""

COMPARED = ("answer", "details", "remark")
"""Fields in which two answers of a person to a question must agree."""

KEYS = ("questionnaire", "sheet", "pair_id", "image_id", "caption_id", "caption", "worker", "answer", "seconds")
SHOWN = ("image_id", "caption_id", "caption")
"""Keys of the question, which people must not change."""

LONGEST_SECONDS = 1e9


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question where it stands in a questionnaire."""

    questionnaire: Questionnaire
    sheet: int  # number of the sheet
    index: int  # in the sheet
    question: Question


@dataclass(frozen=True, slots=True)
class Response:
    """A person's answer to a question: a row of :data:`ANSWER_SCHEMA`."""

    sheet: int
    pair_id: str
    image_id: int
    caption_id: int
    role: str
    worker: str
    answer: str
    gain: float
    positive: bool
    details: str
    remark: str
    seconds: float | None
    origin: str  # file and place

    @property
    def key(self) -> tuple[int, str]:
        """The sheet and the person."""
        return self.sheet, self.worker

    def differs(self, other: Response) -> bool:
        """Whether a person's two answers to a question disagree."""
        return any(getattr(self, name) != getattr(other, name) for name in COMPARED)


def tabulate(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """The frame of answers, with the columns of :data:`ANSWER_SCHEMA`; unknown seconds are missing."""
    return pa.Table.from_pylist(list(rows), schema=ANSWER_SCHEMA).to_pandas()


def list_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as dictionaries, with None for what is missing."""
    rows: list[dict[str, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return rows


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A sheet with some answers of a person, which does not count yet."""

    sheet: int
    worker: str
    answered: int
    questions: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of answered files."""

    responses: tuple[Response, ...]  # of whole sheets, in the order of sheets, workers and questions
    unfinished: tuple[Unfinished, ...]

    @property
    def answers(self) -> pd.DataFrame:
        """The frame of the responses."""
        return tabulate(map(asdict, self.responses))


def identify_worker(name: str) -> str:
    """The normal form of a person's name: in one line and in lower case."""
    return " ".join(name.split()).casefold()


def read_answers(
    paths: Iterable[str | Path],
    questionnaires: Sequence[Questionnaire],
    form: str | None = None,
    *,
    replace: bool = False,
    earlier: Collection[Response] = (),
    workers: Sequence[str] | None = None,
) -> Reading:
    """Read answered files; MalformedSource names file, place and remedy of a wrong answer.

    Args:
        paths: one or more files, in any order.
        questionnaires: the questions.
        form: one of :func:`cxc_eccv.studies.asking.formats.formats`; None to tell it by the suffix of each file.
        replace: let the last of several answers of a person to a question count; the default raises.
        earlier: answers of whole sheets that are known, so that a part of these sheets counts here.
        workers: the person of each file, for files that do not name people.
    """
    files = [Path(path) for path in paths]
    if workers and len(workers) != len(files):
        raise InvalidOption(
            f"--worker names {len(workers)} people for {len(files)} files: name one for each file, in their order"
        )
    questions = list_questions(questionnaires)
    by_key: dict[tuple[int, str, int], Response] = {}
    in_parts = {response.key for response in earlier}
    places = {response.worker: response.origin for response in earlier}
    names: Sequence[str | None] = workers or [None] * len(files)
    for path, name in zip(files, names, strict=True):
        exchange_format = find_format(form, path)
        records = _name_people(path, exchange_format.read(path, questionnaires[0].scheme), name, places)
        for asked, response in _read_records(path, records, questions):
            key = (*response.key, asked.index)
            if not exchange_format.by_sheet:
                in_parts.add(response.key)
            before = by_key.setdefault(key, response)
            if replace:
                by_key[key] = response
            elif response.differs(before):
                raise differing_answers(path, response, before, "or let the last count (--replace)")
    if not by_key:
        expected = "answered questions, in an exported file that people filled in"
        raise MalformedSource(", ".join(map(str, files)) or "no file", "", "no answers", expected)
    sizes = Counter(asked.sheet for asked in questions.values())
    counts = Counter(key[:2] for key in by_key)
    complete = {key for key, count in counts.items() if key in in_parts or count == sizes[key[0]]}
    unfinished = (Unfinished(*key, counts[key], sizes[key[0]]) for key in sorted(counts.keys() - complete))
    responses = (by_key[key] for key in sorted(by_key) if key[:2] in complete)
    return Reading(tuple(responses), tuple(unfinished))


def list_questions(questionnaires: Iterable[Questionnaire]) -> dict[tuple[str, str], AskedQuestion]:
    """Questionnaire's id and pair id to the question."""
    asked = {}
    for number, each in find_questionnaires(questionnaires).items():
        for index, question in enumerate(each.sheet(number)):
            asked[each.id, question.pair_id] = AskedQuestion(each, number, index, question)
    return asked


def differing_answers(path: str | Path, response: Response, before: Response, remedy: str) -> MalformedSource:
    """The error about an answer of a worker in a file that differs from an earlier one."""
    return MalformedSource(
        path,
        response.origin.removeprefix(f"{Path(path).name}, "),
        f"an answer of {shown(response.worker)} about {response.pair_id} that differs from the one in {before.origin}",
        f"one answer of a worker to a question: remove one of the two, {remedy}",
    )


def _name_people(
    path: Path, records: Iterable[tuple[str, Record]], name: str | None, places: dict[str, str]
) -> Iterator[tuple[str, Record]]:
    """Yield each record with its person: whom the file or ``name`` states, else the account of the tool.

    Every installation of a tool numbers its accounts anew, so a number means one person in one file alone. ``places``
    has, for each person, where an answer was found before.
    """
    persons: dict[str, str] = {}
    accounts: dict[str, str] = {}
    for where, record in records:
        account = record.get(ACCOUNT)
        worker = _find_worker(path, where, record, name)
        if isinstance(account, str) and isinstance(worker, str):
            person = identify_worker(worker)
            if persons.setdefault(account, person) != person:
                actual = (
                    f"answers of account {account} to the questions of {shown(persons[account])} and {shown(person)}"
                )
                expected = "a project for each person, with the tasks of this person alone"
                raise MalformedSource(path, where, actual, expected)
            if accounts.setdefault(person, account) != account:
                actual = f"answers of accounts {accounts[person]} and {account} as those of {shown(person)}"
                expected = (
                    "one account per person: remove the answers of the others; or remove 'worker' from all tasks, "
                    "and every account is a person"
                )
                raise MalformedSource(path, where, actual, expected)
            before = places.get(person, str(path))
            is_new_file = before != str(path) and not before.startswith(f"{path.name}, ")
            is_named = bool(name or record.get("worker"))
            if account.isdecimal() and is_new_file and not is_named:
                actual = f"account {account}, and one of the same number in {before}, who may be another person"
                expected = (
                    "the name of each file's person, by --worker; a later export of the same project can have the "
                    "name of the earlier file instead"
                )
                raise MalformedSource(path, where, actual, expected)
            places[person] = str(path)
        yield where, {**record, "worker": worker}


def _find_worker(path: Path, where: str, record: Record, name: str | None) -> object:
    """The person of a record: stated in the record, or ``name``, else the account."""
    stated = record.get("worker")
    if stated in (None, ""):
        return name or record.get(ACCOUNT)
    if name and identify_worker(str(stated)) != identify_worker(name):
        expected = f"answers of {shown(name)} alone, as --worker says"
        raise MalformedSource(path, f"{where}, worker", shown(stated), expected)
    return stated


def _read_records(
    path: Path, records: Iterable[tuple[str, Record]], questions: Mapping[tuple[str, str], AskedQuestion]
) -> Iterator[tuple[AskedQuestion, Response]]:
    """Yield each answered question with its response."""
    for where, record in records:
        require_keys(path, where, record, KEYS)
        asked = _find_question(path, where, record, questions)
        if _is_answered(record) or not isinstance(record["worker"], str | None):
            yield asked, check_answer(path, where, record, asked)


def _is_answered(record: Record) -> bool:
    """Whether anything but the worker's name was filled in."""
    details = record.get("details")
    ticked = any(details.values()) if isinstance(details, dict) else details
    return bool(ticked or record.get("remark") or record["answer"] not in (None, "") or record["seconds"] is not None)


def _find_question(
    path: Path, where: str, record: Record, questions: Mapping[tuple[str, str], AskedQuestion]
) -> AskedQuestion:
    names = sorted({name for name, _ in questions})
    name = record["questionnaire"]
    if name not in names:
        expected = f"{' or '.join(map(repr, names))}; these are answers to other questions or another edition of the"
        raise MalformedSource(path, f"{where}, questionnaire", shown(name), f"{expected} data")
    pair = record["pair_id"]
    number = record["sheet"]
    asked = questions.get((name, pair)) if isinstance(pair, str) else None
    if asked is None or not (asked.questionnaire.portable or (type(number) is int and number == asked.sheet)):
        there = f"pair_id {shown(pair)} of sheet {shown(number)}"
        raise MalformedSource(path, where, there, "an exported question; remove the line")
    for key in SHOWN:
        value = getattr(asked.question, key)
        if record[key] != value:
            expected = f"{shown(value)}, as exported; undo the change"
            raise MalformedSource(path, f"{where}, {key}", shown(record[key]), expected)
    return asked


def check_answer(path: Path, where: str, record: Record, asked: AskedQuestion) -> Response:
    """The response in a record, after checking all that a person filled in."""
    worker = record["worker"]
    seconds = record["seconds"]
    remark = record.get("remark", "")
    question = asked.question
    scheme = asked.questionnaire.scheme
    if not (isinstance(worker, str) and worker.strip() and worker.strip().isprintable()):
        expected = "the worker's name or number, in one line"
        raise MalformedSource(path, f"{where}, worker", shown(worker), expected)
    if not (seconds is None or (type(seconds) in (int, float) and 0 <= seconds <= LONGEST_SECONDS)):
        expected = "the seconds that the answer took, such as 4.5"
        raise MalformedSource(path, f"{where}, seconds", shown(seconds), expected)
    if not isinstance(remark, str):
        raise MalformedSource(path, f"{where}, remark", shown(remark), "a text, or nothing")
    try:
        gain = scheme.compute_gain(record["answer"])
        details = scheme.check_details(record["answer"], record.get("details") or {})
    except InvalidOption as error:
        raise MalformedSource(path, where, str(error), "one of the offered answers") from None
    return Response(
        sheet=asked.sheet,
        pair_id=question.pair_id,
        image_id=question.image_id,
        caption_id=question.caption_id,
        role=question.role,
        worker=identify_worker(worker),
        answer=json.dumps(float(record["answer"]) if scheme.scale else record["answer"], sort_keys=True),
        gain=gain,
        positive=scheme.is_positive(gain),
        details=json.dumps(details, sort_keys=True),
        remark=remark,
        seconds=None if seconds is None else float(seconds),
        origin=f"{path.name}, {where}",
    )
