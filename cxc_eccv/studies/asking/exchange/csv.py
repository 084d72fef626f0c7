"""A table for a spreadsheet: a row per question, its last columns to be filled in."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import parse_number, read_csv, read_lines, shown
from cxc_eccv.studies.asking.exchange.format import Format, Record, join_criteria, name_answers
from cxc_eccv.studies.asking.exchange.instructions import describe_answers
from cxc_eccv.studies.asking.questionnaire import Asked
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.writing import shield, unshield

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
SEPARATORS = (",", ";", "\t")
"""Between cells: where decimals have a comma, spreadsheets put something else there, whatever the file had."""

BETWEEN_TICKS = ";"
BETWEEN_CAPTIONS = " / "

TEXTS = ("questionnaire", "pair_id", "caption")
WHOLE = ("sheet", "image_id", "caption_id")


def render(asked: Sequence[Asked], scheme: Scheme) -> Mapping[str, str]:
    """The table, and how to fill it in.

    Raises:
        InvalidOption: embedded images: a cell of a spreadsheet holds 32,767 characters, and the rest goes astray.
    """
    if any(question["image"].startswith("data:") for question in asked):
        raise InvalidOption("a table holds no images; give their addresses, such as coco or images/{file_name}")
    table = io.StringIO()
    writer = csv.DictWriter(table, [*asked[0], *_filled_in(scheme)], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in question.items()} for question in asked)
    return {"questions.csv": table.getvalue(), "instructions.md": describe_answers(scheme, columns=True)}


def _filled_in(scheme: Scheme) -> list[str]:
    return ["worker", *name_answers(scheme), "seconds"]


def _cell(value: object) -> object:
    if isinstance(value, list):
        value = BETWEEN_CAPTIONS.join(value)
    return shield(value) if isinstance(value, str) else value


def read(path: Path, scheme: Scheme) -> Iterator[tuple[str, Record]]:
    """Every row in which anything stands."""
    header = read_lines(path)[0]
    separator = max(SEPARATORS, key=header.count)
    table = read_csv(path, [*TEXTS, *WHOLE, *_filled_in(scheme)], separator)
    for number, row in enumerate(table.to_pylist(), start=2):
        if not any(row.values()):
            continue
        where = f"line {number}"
        yield (
            where,
            {
                **{name: unshield(row[name]) for name in TEXTS},
                **{name: parse_number(row[name]) for name in WHOLE},
                "worker": row["worker"],
                "answer": _answer(path, where, row, scheme, separator),
                "details": {own.name: _ticks(row[own.name]) for own in scheme.details},
                "remark": row["remark"],
                "seconds": _number(row["seconds"], separator),
            },
        )


def _answer(path: Path, where: str, row: dict[str, str], scheme: Scheme, separator: str) -> object:
    """What was said; capitals are a spreadsheet's, which begins cells with them."""
    if scheme.criteria:
        said = {name: row[name].strip().lower() for name in scheme.criteria}
        for name, word in said.items():
            if word not in ("yes", "no", ""):
                raise MalformedSource(path, f"{where}, column {name}", shown(row[name]), "yes or no")
        return join_criteria({name: word for name, word in said.items() if word})
    return _number(row["answer"], separator) if scheme.scale else row["answer"].strip().lower() or None


def _ticks(text: str) -> list[str]:
    return [tick.strip().lower() for tick in text.split(BETWEEN_TICKS) if tick.strip()]


def _number(text: str, separator: str) -> float | str | None:
    """The number, None for nothing, or the text that is none, which is refused with what would be taken.

    Its decimals may have a comma before them where none stands between cells.
    """
    number = text.strip() if separator == "," else text.strip().replace(",", ".")
    return float(number) if NUMBER.fullmatch(number) else text.strip() or None


FORMAT = Format(
    name="csv",
    title="CSV table",
    exported="a row per question for any spreadsheet: fill in the last columns; a copy for each person",
    answered="the filled-in table, saved as CSV in UTF-8",
    endings=(".csv",),
    render=render,
    read=read,
)
