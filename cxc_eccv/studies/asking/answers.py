"""People's answers read back: every line against the question that was asked, before any of them counts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import require_keys, shown
from cxc_eccv.studies.asking.exchange import Format, find_format
from cxc_eccv.studies.asking.questions import Question, Questionnaire
from cxc_eccv.types.parquet_footer import read_footer

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
"""Answer and details are JSON, the same for the same answer in every format; a remark is what somebody typed, and is
shown as text alone; seconds are null where the format tells none."""

READ = SCHEMA.append(pa.field("origin", pa.string()))
"""Answers, each with the file and the place in it that it was read from."""

SAID = ("answer", "details", "remark")
"""What makes two answers of a person to a question different ones; the time that they took does not."""

KEYS = ("questionnaire", "sheet", "pair_id", "image_id", "caption_id", "caption", "worker", "answer", "seconds")
ASKED = ("image_id", "caption_id", "caption")
"""What a person answers about, and must not change."""

LONGEST = 1e9
"""Seconds."""

Asked = dict[tuple[str, str], tuple[Questionnaire, int, int, Question]]
"""Questionnaire's id and pair id to the questionnaire, the sheet and place in it, and the question."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A sheet that somebody has begun, and that does not count yet."""

    sheet: int
    worker: str
    answered: int
    questions: int


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What answered files hold."""

    answers: pa.Table  # of READ, whole sheets alone, in the order of sheets, workers and questions
    unfinished: tuple[Unfinished, ...]


MOST_ROWS = 10_000_000
"""Of a stored table: a few megabytes of Parquet may claim hundreds of millions, which no memory holds as Python's."""


def refuse_many_rows(path: Path, column: str) -> None:
    """Refuse a Parquet file whose footer claims more rows than anybody answered, before it is read."""
    try:
        rows = sum(chunk.values for chunk in read_footer(path) if chunk.path == column)
    except ValueError:  # what is wrong with it is said where it is read
        return
    if rows > MOST_ROWS:
        raise MalformedSource(path, "", f"{rows:,} rows", f"at most {MOST_ROWS:,}")


def identify_worker(name: str) -> str:
    """The form in which a person's name is compared and kept: in one line of small letters."""
    return " ".join(name.split()).casefold()


def read_answers(
    paths: Iterable[str | Path],
    questionnaires: Sequence[Questionnaire],
    form: str | None = None,
    *,
    replace: bool = False,
    whole: Collection[tuple[int, str]] = (),
) -> Reading:
    """The answers in files; MalformedSource names file, place and remedy of what is no answer to what was asked.

    Args:
        paths: one file or several, in any order.
        questionnaires: what was asked.
        form: one of :func:`cxc_eccv.studies.asking.exchange.formats`; None for that of each file's ending.
        replace: of several answers of a person to a question take the last, in place of refusing another one.
        whole: sheets and workers of which all answers are known, so that some lines of theirs count.
    """
    files = [Path(path) for path in paths]
    asked: Asked = {
        (own.id, question.pair_id): (own, own.first + number, place, question)
        for own in questionnaires
        for number, sheet in enumerate(own.sheets)
        for place, question in enumerate(sheet)
    }
    found: dict[tuple[int, str, int], dict[str, Any]] = {}
    for path in files:
        for place, row in _read_file(path, questionnaires, asked, find_format(form, path)):
            key = row["sheet"], row["worker"], place
            before = found.setdefault(key, row)
            if replace:
                found[key] = row
            elif any(before[name] != row[name] for name in SAID):
                where = row["origin"].removeprefix(f"{path.name}, ")
                raise MalformedSource(
                    path,
                    where,
                    f"another answer of {shown(row['worker'])} about {row['pair_id']} than the one in "
                    f"{before['origin']}",
                    "one answer of a worker to a question: remove one of the two, or let the last count (--replace)",
                )
    if not found:
        expected = "answered questions, in a file as it was exported and filled in"
        raise MalformedSource(", ".join(map(str, files)) or "no file", "", "no answers", expected)
    sizes = {own.first + number: len(sheet) for own in questionnaires for number, sheet in enumerate(own.sheets)}
    begun: dict[tuple[int, str], int] = {}
    for sheet, worker, _ in found:
        begun[sheet, worker] = begun.get((sheet, worker), 0) + 1
    taken = {key for key, number in begun.items() if key in whole or number == sizes[key[0]]}
    rows = [found[key] for key in sorted(found) if key[:2] in taken]
    unfinished = (Unfinished(*key, number, sizes[key[0]]) for key, number in sorted(begun.items()) if key not in taken)
    return Reading(pa.Table.from_pylist(rows, schema=READ), tuple(unfinished))


def _read_file(
    path: Path, questionnaires: Sequence[Questionnaire], asked: Asked, form: Format
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Of every answer the place of its question in the sheet, and its row."""
    for where, record in form.read(path, questionnaires[0].scheme):
        require_keys(path, where, record, KEYS)
        own, sheet, place, question = _find_question(path, where, record, questionnaires, asked)
        if _is_answered(record) or not isinstance(record["worker"], str | None):
            yield place, _read_row(path, where, record, own, sheet, question)


def _is_answered(record: dict[str, Any]) -> bool:
    """Whether anything was filled in; a worker's name alone is nothing."""
    details = record.get("details")
    ticked = any(details.values()) if isinstance(details, dict) else details
    return bool(ticked or record.get("remark") or record["answer"] not in (None, "") or record["seconds"] is not None)


def _find_question(
    path: Path, where: str, record: dict[str, Any], questionnaires: Sequence[Questionnaire], asked: Asked
) -> tuple[Questionnaire, int, int, Question]:
    known = sorted({name for name, _ in asked})
    # A row of an older layout, which does not say it, answers the only questionnaire that there is.
    is_older = record["questionnaire"] is None and questionnaires[0].scheme.older is not None and len(known) == 1
    name = known[0] if is_older else record["questionnaire"]
    if name not in known:
        expected = f"{' or '.join(map(repr, known))}: these are answers to other questions, or to those of another "
        raise MalformedSource(path, f"{where}, questionnaire", shown(name), f"{expected}edition of the data")
    pair, number = record["pair_id"], record["sheet"]
    found = asked.get((name, pair)) if isinstance(pair, str) else None
    # Sheets of a later round were numbered from 0 on by older versions.
    anywhere = is_older or (found is not None and found[0].portable)
    if found is None or not (anywhere or (type(number) is int and number in (found[1], found[1] - found[0].first))):
        there = f"pair_id {shown(pair)} of sheet {shown(number)}"
        raise MalformedSource(path, where, there, "a question that was asked; remove the line")
    for key in ASKED:
        if record[key] != getattr(found[3], key) and not (is_older and record[key] is None):
            expected = f"{shown(getattr(found[3], key))}, as it was asked: undo the change"
            raise MalformedSource(path, f"{where}, {key}", shown(record[key]), expected)
    return found


def _read_row(
    path: Path, where: str, record: dict[str, Any], own: Questionnaire, sheet: int, question: Question
) -> dict[str, Any]:
    worker, seconds, remark, scheme = record["worker"], record["seconds"], record.get("remark", ""), own.scheme
    if not (isinstance(worker, str) and worker.strip() and worker.strip().isprintable()):
        expected = "the worker's name or number, in one line"
        raise MalformedSource(path, f"{where}, worker", shown(worker), expected)
    if not _is_duration(seconds):
        raise MalformedSource(path, f"{where}, seconds", shown(seconds), "the seconds that the answer took, as 4.5")
    if not isinstance(remark, str):
        raise MalformedSource(path, f"{where}, remark", shown(remark), "a text, or nothing")
    try:
        gain = scheme.gain_of(record["answer"])
        details = scheme.check_details(record["answer"], record.get("details") or {})
    except InvalidOption as error:
        raise MalformedSource(path, where, str(error), "an answer as it was offered") from None
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
        "origin": f"{path.name}, {where}",
    }


def _is_duration(seconds: object) -> bool:
    if seconds is None:
        return True
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= LONGEST
