"""A table for a spreadsheet: a row per question, whose last columns a person fills in."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import parse_number, read_csv, read_lines, shown
from cxc_eccv.studies.asking.formats import SEPARATORS, Format, Record, join_criteria, name_answers
from cxc_eccv.studies.asking.instructions import write_instructions
from cxc_eccv.studies.asking.questionnaire import Handout, ShownQuestion
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.writing import shield, unshield

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

BETWEEN_TICKS = ";"
BETWEEN_CAPTIONS = " / "

TEXTS = ("questionnaire", "pair_id", "caption")
WHOLE = ("sheet", "image_id", "caption_id")


def render(questions: Sequence[ShownQuestion], handout: Handout) -> Mapping[str, str]:
    """The table and its instructions; a cell of a spreadsheet has at most 32,767 characters, too few for an image."""
    values = chain(*(question.values() for question in questions))
    if any(str(value).startswith("data:") for value in values):
        raise InvalidOption("a table cannot embed images; give their addresses, such as coco or images/{file_name}")
    table = io.StringIO()
    columns = [*questions[0], "worker", *name_answers(handout.scheme), "seconds"]
    writer = csv.DictWriter(table, columns, lineterminator="\n")
    writer.writeheader()
    for question in questions:
        writer.writerow({name: _cell(value) for name, value in question.items()} | {"worker": handout.worker})
    return {"questions.csv": table.getvalue(), "instructions.md": write_instructions(handout, columns=True)}


def _cell(value: object) -> object:
    if isinstance(value, list):
        value = BETWEEN_CAPTIONS.join(value)
    return shield(value) if isinstance(value, str) else value


def read(path: Path, scheme: Scheme) -> Iterator[tuple[str, Record]]:
    """Every row that is not empty."""
    header = read_lines(path)[0]
    separator = max(SEPARATORS, key=header.count)
    if "annotation_id" in header:
        raise MalformedSource(
            path, "line 1", "columns of Label Studio's export as CSV", "its export in the format JSON"
        )
    table = read_csv(path, [*TEXTS, *WHOLE, "worker", *name_answers(scheme), "seconds"], separator)
    for number, row in enumerate(table.to_pylist(), start=2):
        if not any(row.values()):
            continue
        where = f"line {number}"
        record: Record = {name: unshield(row[name]) for name in TEXTS}
        record |= {name: parse_number(row[name]) for name in WHOLE}
        record |= {"worker": row["worker"], "remark": row["remark"], "seconds": _number(row["seconds"], separator)}
        for name in scheme.criteria or ():
            if row[name].strip().lower() not in ("yes", "no", ""):
                raise MalformedSource(path, f"{where}, column {name}", shown(row[name]), "yes or no")
        record["answer"] = _answer(row, scheme, separator)
        record["details"] = {group.name: _ticks(row[group.name]) for group in scheme.details}
        yield where, record


def _answer(row: dict[str, str], scheme: Scheme, separator: str) -> object:
    """The answer in lower case, since spreadsheets capitalise cells."""
    if scheme.criteria:
        words = {name: row[name].strip().lower() for name in scheme.criteria}
        return join_criteria({name: word for name, word in words.items() if word})
    return _number(row["answer"], separator) if scheme.scale else row["answer"].strip().lower() or None


def _ticks(text: str) -> list[str]:
    return [tick.strip().lower() for tick in text.split(BETWEEN_TICKS) if tick.strip()]


def _number(text: str, separator: str) -> float | str | None:
    """The number, None for an empty cell, or other text, which is refused later."""
    number = text.strip() if separator == "," else text.strip().replace(",", ".")
    return float(number) if NUMBER.fullmatch(number) else text.strip() or None


FORMAT = Format(
    name="csv",
    exported="a row per question for any spreadsheet; each person fills in the last columns of a copy",
    ending=".csv",
    render=render,
    read=read,
)
