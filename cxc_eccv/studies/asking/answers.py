"""People's answers read back: every line against the question that was asked, before any of them counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.errors import InvalidOption, MalformedSource, UnknownName
from cxc_eccv.sources.reading import require_keys, shown
from cxc_eccv.studies.asking.exchange import Format, formats
from cxc_eccv.studies.asking.questionnaire import questionnaire_id
from cxc_eccv.studies.asking.questions import Question
from cxc_eccv.studies.asking.schemes import Scheme

__all__ = ["SCHEMA", "read_answers"]

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

KEYS = ("questionnaire", "sheet", "pair_id", "image_id", "caption_id", "caption", "worker", "answer", "seconds")
Key = tuple[int, str, int]
"""Sheet, worker, and place of the question in the sheet."""

ASKED = ("image_id", "caption_id", "caption")
"""What a person answers about, and must not change."""

LONGEST = 1e9
"""Seconds."""


def read_answers(
    paths: Iterable[str | Path], sheets: Sequence[Sequence[Question]], scheme: Scheme, format_name: str = "html"
) -> pa.Table:
    """The answers in files of one format, in the order of sheets, workers and questions.

    Args:
        paths: one file or several, in any order.
        sheets: what was asked.
        scheme: how it was asked.
        format_name: one of :func:`cxc_eccv.studies.asking.exchange.formats`.

    Returns:
        A table of :data:`SCHEMA`. What nobody answered is not in it.

    Raises:
        UnknownName: no such format.
        InvalidOption: a file has the ending of other formats alone.
        MalformedSource: a file is none of the format, or holds what is no answer to one of the questions as they were
            asked: another questionnaire, an unknown pair, a changed text, no such answer or details; or a worker
            answered twice, or not all of a sheet; or nobody answered anything. The message names file, place and
            remedy.
    """
    if format_name not in formats():
        raise UnknownName("format", format_name, formats())
    own_format, files = formats()[format_name], [Path(path) for path in paths]
    found: dict[Key, dict[str, Any]] = {}
    places: dict[Key, str] = {}
    for path in files:
        for where, place, row in _read_file(path, sheets, scheme, own_format):
            key = row["sheet"], row["worker"], place
            if key in found:
                raise MalformedSource(
                    path,
                    where,
                    f"a second answer of {shown(row['worker'])} about {row['pair_id']}",
                    f"one answer of a worker to a question; the other is in {places[key]}, remove one",
                )
            found[key], places[key] = row, f"{path.name}, {where}"
    if not found:
        raise MalformedSource(
            ", ".join(map(str, files)) or "no file", "", "no answers", f"{own_format.answered}, with answers in it"
        )
    _refuse_halves(found, places, sheets)
    return pa.Table.from_pylist([found[key] for key in sorted(found)], schema=SCHEMA)


def _read_file(
    path: Path, sheets: Sequence[Sequence[Question]], scheme: Scheme, own_format: Format
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Of every answer the place in the file, that of its question in the sheet, and its row."""
    # Only endings of other formats are refused: people name files as they like.
    others = [other.name for other in formats().values() if path.suffix.lower() in other.endings]
    if others and own_format.name not in others:
        raise InvalidOption(f"{path} is no file of the format {own_format.name}; name {' or '.join(others)}")
    questionnaire = questionnaire_id(sheets, scheme)
    asked = {
        (number, question.pair_id): (place, question)
        for number, sheet in enumerate(sheets)
        for place, question in enumerate(sheet)
    }
    for where, record in own_format.read(path, scheme):
        require_keys(path, where, record, KEYS)
        if record["questionnaire"] != questionnaire:
            raise MalformedSource(
                path,
                f"{where}, questionnaire",
                shown(record["questionnaire"]),
                f"{questionnaire!r}: these are answers to other questions, or to those of another edition of the data",
            )
        place, question = _find_question(path, where, record, asked)
        if _is_answered(record) or not isinstance(record["worker"], str | None):
            yield where, place, _read_row(path, where, record, question, scheme, own_format)


def _is_answered(record: dict[str, Any]) -> bool:
    """Whether anything was filled in; a worker's name alone is nothing."""
    details = record.get("details")
    ticked = any(details.values()) if isinstance(details, dict) else details
    return bool(ticked or record.get("remark") or record["answer"] not in (None, "") or record["seconds"] is not None)


def _find_question(
    path: Path, where: str, record: dict[str, Any], asked: dict[tuple[int, str], tuple[int, Question]]
) -> tuple[int, Question]:
    key = record["sheet"], record["pair_id"]
    if not (type(key[0]) is int and isinstance(key[1], str) and key in asked):
        there = f"pair_id {shown(key[1])} of sheet {shown(key[0])}"
        raise MalformedSource(path, where, there, "a question that was asked; remove the line")
    place, question = asked[key]
    for name in ASKED:
        if record[name] != getattr(question, name):
            expected = f"{shown(getattr(question, name))}, as it was asked: undo the change"
            raise MalformedSource(path, f"{where}, {name}", shown(record[name]), expected)
    return place, question


def _read_row(
    path: Path, where: str, record: dict[str, Any], question: Question, scheme: Scheme, own_format: Format
) -> dict[str, Any]:
    worker, seconds, remark = record["worker"], record["seconds"], record.get("remark", "")
    if not (isinstance(worker, str) and worker and worker.isprintable() and worker == worker.strip()):
        expected = "the worker's name or number, in one line and without blanks around it"
        raise MalformedSource(path, f"{where}, worker", shown(worker), expected)
    if (seconds is None and own_format.timed) or not _is_duration(seconds):
        raise MalformedSource(path, f"{where}, seconds", shown(seconds), "the seconds that the answer took, as 4.5")
    if not isinstance(remark, str):
        raise MalformedSource(path, f"{where}, remark", shown(remark), "a text, or nothing")
    try:
        gain = scheme.gain_of(record["answer"])
        details = scheme.check_details(record["answer"], record.get("details") or {})
    except InvalidOption as error:
        raise MalformedSource(path, where, str(error), "an answer as it was offered") from None
    return {
        "sheet": record["sheet"],
        "pair_id": question.pair_id,
        "image_id": question.image_id,
        "caption_id": question.caption_id,
        "role": question.role,
        "worker": worker,
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
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= LONGEST


def _refuse_halves(
    found: dict[tuple[int, str, int], Any],
    places: dict[Key, str],
    sheets: Sequence[Sequence[Question]],
) -> None:
    begun: dict[tuple[int, str], list[int]] = {}
    for sheet, worker, place in found:
        begun.setdefault((sheet, worker), []).append(place)
    for (sheet, worker), answered in begun.items():
        if len(answered) < len(sheets[sheet]):
            lacking = next(place for place in range(len(sheets[sheet])) if place not in answered)
            raise MalformedSource(
                places[sheet, worker, answered[0]],
                f"sheet {sheet}",
                f"{len(answered)} of {len(sheets[sheet])} answers of {shown(worker)}",
                f"a whole sheet, and {sheets[sheet][lacking].pair_id} has no answer; finish it, or remove its lines",
            )
