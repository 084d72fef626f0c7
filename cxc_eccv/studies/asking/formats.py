"""Formats of questions and answers: a page for any browser, JSON lines, a table for a spreadsheet, HITs of MTurk.

The page is the template of all HITs, whose table has a row per HIT with its questions in Base64, so that no sign of
them is lost or means something to a template.

References:
    Chun et al., ECCV Caption, ECCV 2022, section 3.2: a HIT has 20 pairs.
    Amazon Mechanical Turk, Templating and Submitting from JavaScript, https://docs.aws.amazon.com/AWSMechTurk.
"""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import (
    parse_json,
    parse_number,
    read_csv,
    read_json_lines,
    read_lines,
    read_text,
    require_keys,
    shown,
)
from cxc_eccv.studies.asking.questionnaire import ADDRESSES, Handout, ShownQuestion, describe_page, render_page
from cxc_eccv.studies.asking.schemes import Scheme, Widget
from cxc_eccv.writing import shield, unshield, write_texts

Record = dict[str, Any]
"""One answer: the unchanged keys of its question, and worker, answer, details, remark and seconds."""

ACCOUNT = "account of the tool"
"""Key of a record: the account that gave the answer, where the worker is the person whose questions they are."""

HEAD = """\
# {title}

{instructions}

{question}

Fill in a copy of the file, and change nothing else in it. Empty cells are not answers. A sheet counts when all of its
questions are answered.

- `worker`: your name or number, with every answer."""

JSON = """\
- In JSON, yes and no are true and false in an object `answer`, such as `{"describes": true, "follows": false}`; ticks
  are lists in an object `details`, such as `{"shortcomings": ["grammar"]}`; names are in quotes."""

TABLE = "- In the table, separate several ticks by semicolons, and write numbers with a decimal point."

FOOT = """\
- `remark`: a remark in one line, or nothing.
- `seconds`: how long the answer took, or nothing."""


@dataclass(frozen=True, slots=True)
class Format:
    """A tool or a kind of file."""

    name: str
    exported: str  # what the files are, and how to use them
    ending: str  # suffix of the answered files
    render: Callable[[Sequence[ShownQuestion], Handout], Mapping[str, str]]
    read: Callable[[Path, Scheme], Iterator[tuple[str, Record]]]
    by_sheet: bool = True  # whether people get whole sheets; else every answer counts by itself

    def export(self, folder: str | Path, questions: Sequence[ShownQuestion], handout: Handout) -> list[Path]:
        """Write the questions, all files or none.

        Other files of the folder are kept, and so are exported ones that were changed: InvalidOption names them.
        """
        return write_texts(Path(folder), self.render(questions, handout), recorded=True)


def name_answers(scheme: Scheme) -> tuple[str, ...]:
    """Names of what is asked about every pair: criteria or an answer, details, and a remark."""
    return (*(scheme.criteria or ["answer"]), *(group.name for group in scheme.details), "remark")


def join_criteria(words: Mapping[str, object]) -> dict[str, object] | None:
    """One answer from a yes or no for each criterion; None if none was answered."""
    yes_no: dict[object, object] = {"yes": True, "no": False}
    return {name: yes_no.get(word, word) if isinstance(word, str) else word for name, word in words.items()} or None


def describe_answers(handout: Handout, *, columns: bool = False) -> str:
    """The instructions in Markdown, for a table (``columns``) or JSON."""
    scheme = handout.scheme
    paragraphs = "\n\n".join([*handout.texts.consent, *scheme.instructions, *handout.texts.examples])
    head = HEAD.format(title=scheme.title, instructions=paragraphs, question=scheme.question)
    lines = [line for widget in scheme.widgets() for line in _describe(widget)]
    return "\n".join([head, *lines, TABLE if columns else JSON, FOOT]) + "\n"


def _describe(widget: Widget) -> Iterator[str]:
    choices = widget.get("choices", {})
    if widget["kind"] == "slider":
        kind = "number" if widget["step"] is None else "whole number"
        text = f"a {kind} from {widget['low']:g} to {widget['high']:g}."
        choices = {f"{widget['low'] + place:g}": text for place, text in enumerate(widget["marks"])}
    elif widget["kind"] == "ticks":
        asked_with = widget["after"] or " and ".join(widget["asked_with"] or ())
        text = f"{widget['label']} One or more{f', only with {asked_with}' if asked_with else ''}."
        text += f" {widget['alone']} excludes the others." if widget["alone"] else ""
    else:
        text = f"yes or no. {widget['label']}" if widget["kind"] == "yes_no" else "one of these."
    yield f"- `{widget['name']}`: {text}"
    yield from (f"  - `{name}`: {label}" for name, label in choices.items())


EMPTY: Record = {"answer": None, "details": {}, "remark": "", "seconds": None}


def _render_lines(questions: Sequence[ShownQuestion], handout: Handout) -> Mapping[str, str]:
    """The lines and their instructions."""
    empty = {"worker": handout.worker or None, **EMPTY}
    lines = [json.dumps(question | empty, ensure_ascii=False) for question in questions]
    return {"questions.jsonl": "".join(f"{line}\n" for line in lines), "instructions.md": describe_answers(handout)}


def _read_lines(path: Path, scheme: Scheme) -> Iterator[tuple[str, Record]]:
    """Every line."""
    for number, record in read_json_lines(path):
        yield f"line {number}", record


JSONL = Format(
    name="jsonl",
    exported="a line per question; each person fills in worker, answer and details of a copy",
    ending=".jsonl",
    render=_render_lines,
    read=_read_lines,
)


HTML = Format(
    name="html",
    exported="one page, offline if its images are embedded: send it to people, who save their answers",
    ending=".jsonl",
    render=lambda questions, handout: {"questionnaire.html": render_page(describe_page(questions, handout), handout)},
    read=_read_lines,
)


NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
SEPARATORS = (",", ";", "\t")
"""Separators of cells: spreadsheets change them in languages with decimal commas."""

BETWEEN_TICKS = ";"
BETWEEN_CAPTIONS = " / "

TEXTS = ("questionnaire", "pair_id", "caption")
WHOLE = ("sheet", "image_id", "caption_id")


def _render_table(questions: Sequence[ShownQuestion], handout: Handout) -> Mapping[str, str]:
    """The table and its instructions; a cell of a spreadsheet has at most 32,767 characters, too few for an image."""
    if any(str(value).startswith("data:") for question in questions for value in question.values()):
        raise InvalidOption("a table cannot embed images; give their addresses, such as coco or images/{file_name}")
    table = io.StringIO()
    columns = [*questions[0], "worker", *name_answers(handout.scheme), "seconds"]
    writer = csv.DictWriter(table, columns, lineterminator="\n")
    writer.writeheader()
    for question in questions:
        writer.writerow({name: _cell(value) for name, value in question.items()} | {"worker": handout.worker})
    return {"questions.csv": table.getvalue(), "instructions.md": describe_answers(handout, columns=True)}


def _cell(value: object) -> object:
    if isinstance(value, list):
        value = BETWEEN_CAPTIONS.join(value)
    return shield(value) if isinstance(value, str) else value


def _read_table(path: Path, scheme: Scheme) -> Iterator[tuple[str, Record]]:
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


CSV = Format(
    name="csv",
    exported="a row per question for any spreadsheet; each person fills in the last columns of a copy",
    ending=".csv",
    render=_render_table,
    read=_read_table,
)


OF_A_SHEET = ("questionnaire", "sheets", "images", "asked")
"""Data of the page that differ between HITs."""

MOST_BYTES = 65_535
"""Largest page of a HIT."""

COLUMNS = ("WorkerId", "AssignmentStatus", "Answer.answers")
"""Columns that every table of results has."""

STATUSES = ("Submitted", "Approved", "Rejected")

NO_ANSWERS = ("", "{}", "[]")
"""What the column of the answers holds where the worker sent none."""


def _render_hits(questions: Sequence[ShownQuestion], handout: Handout) -> Mapping[str, str]:
    """The template, and the table of its variables."""
    if not all(
        str(question.get(name, "https:")).startswith("https:") for question in questions for name in ADDRESSES.values()
    ):
        raise InvalidOption(
            "a HIT shows images from https addresses alone; give them, as https://example.org/{folder}/{file_name}"
        )
    pages = [describe_page(list(sheet), handout) for _, sheet in groupby(questions, lambda question: question["sheet"])]
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["sheet", "questions"])
    template = render_page(
        {name: value for name, value in pages[0].items() if name not in OF_A_SHEET}, handout, "${questions}"
    )
    for page in pages:
        number = page["sheets"][0]["number"]
        # The page keeps answers by the questionnaire's name, and a worker may have several HITs.
        sheet = {name: page[name] for name in OF_A_SHEET} | {"questionnaire": f"{page['questionnaire']}-{number}"}
        encoded = b64encode(json.dumps(sheet).encode()).decode()
        if len(template.encode()) + len(encoded) > MOST_BYTES:
            raise InvalidOption(
                f"sheet {number} is larger than a HIT, which has {MOST_BYTES:,} bytes: ask less on a sheet"
            )
        writer.writerow([number, encoded])
    return {"template.html": template, "hits.csv": table.getvalue()}


def _read_results(path: Path, scheme: Scheme) -> Iterator[tuple[str, Record]]:
    """Every answer of an assignment that was not rejected; warns about assignments without an answer."""
    header, *rows = _read_batch(path)
    for number, cells in enumerate(rows, start=2):
        row = dict(zip(header, cells, strict=True))
        where = f"row {number}"
        worker = row["WorkerId"]
        text = row["Answer.answers"].strip()
        if not any(cells) or _is_rejected(path, where, row):
            continue
        if text in NO_ANSWERS:
            warnings.warn(f"{path}, {where}: the assignment of {worker} has no answer and is left out", stacklevel=2)
            continue
        answers = parse_json(text, path)
        if not isinstance(answers, list):
            raise MalformedSource(path, where, shown(answers), "a list of answers")
        for place, record in enumerate(answers):
            yield f"{where}, [{place}]", require_keys(path, f"{where}, [{place}]", record, ()) | {"worker": worker}


def _read_batch(path: Path) -> list[list[str]]:
    """The cells of a batch's results, the header first; MTurk leaves out the last empty cells of a row."""
    content = read_text(path)
    separator = max(SEPARATORS, key=content.partition("\n")[0].count)
    try:
        # The csv module refuses long cells, and the carriage returns that end lines of some spreadsheets.
        frame = pd.read_csv(
            io.StringIO(content), sep=separator, header=None, dtype=str, na_filter=False, skip_blank_lines=False
        )
    except pd.errors.ParserError as error:
        reason = str(error).rpartition("C error: ")[2].strip()
        raise MalformedSource(path, "", reason, "the results of a batch as CSV") from None
    cells: list[list[str]] = frame.to_numpy().tolist()
    header = cells[0]
    for name in COLUMNS:
        if header.count(name) != 1:
            expected = f"a column {name!r}, as the results of a batch have it"
            raise MalformedSource(path, "line 1", f"columns {shown(header)}", expected)
    return cells


def _is_rejected(path: Path, where: str, row: Mapping[str, str]) -> bool:
    """Whether the requester rejects an assignment: by the columns for the review if one is filled, else the status."""
    approve, reject = (row.get(name, "").strip() for name in ("Approve", "Reject"))
    if approve and reject:
        raise MalformedSource(path, where, "both Approve and Reject filled in", "one of the two, or none")
    status = row["AssignmentStatus"]
    if status not in STATUSES:
        raise MalformedSource(path, f"{where}, AssignmentStatus", shown(status), " or ".join(STATUSES))
    return bool(reject) or (status == "Rejected" and not approve)


MTURK = Format(
    name="mturk",
    exported="a HIT per sheet: template.html is the layout of the project, and hits.csv its batch; nothing is sent",
    ending=".csv",
    render=_render_hits,
    read=_read_results,
)
