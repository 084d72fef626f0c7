"""Read people's answers, and check every line against its question."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import require_keys, shown
from cxc_eccv.studies.asking.exchange import find_format
from cxc_eccv.studies.asking.formats import Format
from cxc_eccv.studies.asking.questions import Question, Questionnaire
from cxc_eccv.studies.asking.schemes import Scheme

SCHEMA = pa.schema(
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

READ = SCHEMA.append(pa.field("origin", pa.string()))
"""Answers, each with its file and place."""

COMPARED = ("answer", "details", "remark")
"""Columns in which two answers of a person to a question must agree."""

KEYS = ("questionnaire", "sheet", "pair_id", "image_id", "caption_id", "caption", "worker", "answer", "seconds")
ASKED = ("image_id", "caption_id", "caption")
"""Keys of the question, which people must not change."""

LONGEST_SECONDS = 1e9

Asked = dict[tuple[str, str], tuple[Questionnaire, int, int, Question]]
"""Questionnaire's id and pair id to the questionnaire, the sheet and place in it, and the question."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A sheet with some answers of a person, which does not count yet."""

    sheet: int
    worker: str
    answered: int
    questions: int


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The content of answered files."""

    answers: pa.Table  # of READ; of whole sheets, in the order of sheets, workers and questions
    unfinished: tuple[Unfinished, ...]


def identify_worker(name: str) -> str:
    """The normal form of a person's name: in one line and in lower case."""
    return " ".join(name.split()).casefold()


def read_answers(
    paths: Iterable[str | Path],
    questionnaires: Sequence[Questionnaire],
    form: str | None = None,
    *,
    replace: bool = False,
    whole: Collection[tuple[int, str]] = (),
) -> Reading:
    """Read answered files; MalformedSource names file, place and remedy of a wrong answer.

    Args:
        paths: one or more files, in any order.
        questionnaires: the questions.
        form: one of :func:`cxc_eccv.studies.asking.exchange.formats`; None to tell it by the suffix of each file.
        replace: let the last of several answers of a person to a question count; the default raises.
        whole: sheets and workers with all answers known before, so that a part of them counts here.
    """
    files = [Path(path) for path in paths]
    asked: Asked = {
        (questionnaire.id, question.pair_id): (questionnaire, questionnaire.first + number, place, question)
        for questionnaire in questionnaires
        for number, sheet in enumerate(questionnaire.sheets)
        for place, question in enumerate(sheet)
    }
    rows_by_key: dict[tuple[int, str, int], dict[str, Any]] = {}
    in_parts = set(whole)
    for path in files:
        exchange_format = find_format(form, path)
        for place, row in _read_file(path, questionnaires, asked, exchange_format):
            key = row["sheet"], row["worker"], place
            if not exchange_format.by_sheet:
                in_parts.add(key[:2])
            before = rows_by_key.setdefault(key, row)
            if replace:
                rows_by_key[key] = row
            elif any(before[name] != row[name] for name in COMPARED):
                raise differing_answers(path, row, before, "or let the last count (--replace)")
    if not rows_by_key:
        expected = "answered questions, in an exported file that people filled in"
        raise MalformedSource(", ".join(map(str, files)) or "no file", "", "no answers", expected)
    sizes = {each.first + number: len(sheet) for each in questionnaires for number, sheet in enumerate(each.sheets)}
    begun: dict[tuple[int, str], int] = {}
    for sheet, worker, _ in rows_by_key:
        begun[sheet, worker] = begun.get((sheet, worker), 0) + 1
    taken = {key for key, number in begun.items() if key in in_parts or number == sizes[key[0]]}
    rows = [rows_by_key[key] for key in sorted(rows_by_key) if key[:2] in taken]
    unfinished = (Unfinished(*key, number, sizes[key[0]]) for key, number in sorted(begun.items()) if key not in taken)
    return Reading(pa.Table.from_pylist(rows, schema=READ), tuple(unfinished))


def differing_answers(
    path: str | Path, row: Mapping[str, Any], before: Mapping[str, Any], remedy: str
) -> MalformedSource:
    """The error about an answer of a worker in a file that differs from an earlier one."""
    return MalformedSource(
        path,
        row["origin"].removeprefix(f"{Path(path).name}, "),
        f"an answer of {shown(row['worker'])} about {row['pair_id']} that differs from the one in {before['origin']}",
        f"one answer of a worker to a question: remove one of the two, {remedy}",
    )


def _read_file(
    path: Path, questionnaires: Sequence[Questionnaire], asked: Asked, form: Format
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the index of each answer's question in its sheet, and its row."""
    for where, record in form.read(path, questionnaires[0].scheme):
        require_keys(path, where, record, KEYS)
        questionnaire, sheet, place, question = _find_question(path, where, record, asked)
        if _is_answered(record) or not isinstance(record["worker"], str | None):
            row = describe_answer(path, where, record, sheet, question, questionnaire.scheme)
            yield place, row | {"origin": f"{path.name}, {where}"}


def _is_answered(record: dict[str, Any]) -> bool:
    """Whether anything but the worker's name was filled in."""
    details = record.get("details")
    ticked = any(details.values()) if isinstance(details, dict) else details
    return bool(ticked or record.get("remark") or record["answer"] not in (None, "") or record["seconds"] is not None)


def _find_question(
    path: Path, where: str, record: dict[str, Any], asked: Asked
) -> tuple[Questionnaire, int, int, Question]:
    known = sorted({name for name, _ in asked})
    name = record["questionnaire"]
    if name not in known:
        expected = f"{' or '.join(map(repr, known))}; these are answers to other questions or another edition of the"
        raise MalformedSource(path, f"{where}, questionnaire", shown(name), f"{expected} data")
    pair, number = record["pair_id"], record["sheet"]
    entry = asked.get((name, pair)) if isinstance(pair, str) else None
    if entry is None or not (entry[0].portable or (type(number) is int and number == entry[1])):
        there = f"pair_id {shown(pair)} of sheet {shown(number)}"
        raise MalformedSource(path, where, there, "an exported question; remove the line")
    for key in ASKED:
        if record[key] != getattr(entry[3], key):
            expected = f"{shown(getattr(entry[3], key))}, as exported; undo the change"
            raise MalformedSource(path, f"{where}, {key}", shown(record[key]), expected)
    return entry


def describe_answer(
    path: Path, where: str, record: Mapping[str, Any], sheet: int, question: Question, scheme: Scheme
) -> dict[str, Any]:
    """The row of :data:`SCHEMA` of an answer, after checking all that a person filled in."""
    worker, seconds, remark = record["worker"], record["seconds"], record.get("remark", "")
    if not (isinstance(worker, str) and worker.strip() and worker.strip().isprintable()):
        expected = "the worker's name or number, in one line"
        raise MalformedSource(path, f"{where}, worker", shown(worker), expected)
    if not _is_duration(seconds):
        raise MalformedSource(
            path, f"{where}, seconds", shown(seconds), "the seconds that the answer took, such as 4.5"
        )
    if not isinstance(remark, str):
        raise MalformedSource(path, f"{where}, remark", shown(remark), "a text, or nothing")
    try:
        gain = scheme.gain_of(record["answer"])
        details = scheme.check_details(record["answer"], record.get("details") or {})
    except InvalidOption as error:
        raise MalformedSource(path, where, str(error), "one of the offered answers") from None
    return {
        "sheet": sheet,
        "pair_id": question.pair_id,
        "image_id": question.image_id,
        "caption_id": question.caption_id,
        "role": question.role,
        "worker": identify_worker(worker),
        "answer": json.dumps(float(record["answer"]) if scheme.scale else record["answer"], sort_keys=True),
        "gain": gain,
        "positive": scheme.is_positive(gain),
        "details": json.dumps(details, sort_keys=True),
        "remark": remark,
        "seconds": None if seconds is None else float(seconds),
    }


def _is_duration(seconds: object) -> bool:
    if seconds is None:
        return True
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= LONGEST_SECONDS
