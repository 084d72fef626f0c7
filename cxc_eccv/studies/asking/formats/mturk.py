"""HITs of Mechanical Turk: the page is the template of all, and a table has a row per HIT with its questions in Base64.

So no sign of the questions is lost or means something to a template.

References:
    Chun et al., ECCV Caption, ECCV 2022, section 3.2: a HIT has 20 pairs.
    Amazon Mechanical Turk, Templating and Submitting from JavaScript, https://docs.aws.amazon.com/AWSMechTurk.
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product
from pathlib import Path

import pandas as pd

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import parse_json, read_text, require_keys, shown
from cxc_eccv.studies.asking.formats import SEPARATORS, Format, Record
from cxc_eccv.studies.asking.questionnaire import ADDRESSES, Handout, ShownQuestion, describe_page, render_page
from cxc_eccv.studies.asking.schemes import Scheme

OF_A_SHEET = ("questionnaire", "sheets", "images", "asked")
"""Data of the page that differ between HITs."""

MOST_BYTES = 65_535
"""Largest page of a HIT."""

COLUMNS = ("WorkerId", "AssignmentStatus", "Answer.answers")
"""Columns that every table of results has."""

STATUSES = ("Submitted", "Approved", "Rejected")

NO_ANSWERS = ("", "{}", "[]")
"""What the column of the answers holds where the worker sent none."""


def render(questions: Sequence[ShownQuestion], handout: Handout) -> Mapping[str, str]:
    """The template, and the table of its variables."""
    addresses = [question.get(name, "https:") for question, name in product(questions, ADDRESSES.values())]
    if not all(str(address).startswith("https:") for address in addresses):
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


def read(path: Path, scheme: Scheme) -> Iterator[tuple[str, Record]]:
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


FORMAT = Format(
    name="mturk",
    exported="a HIT per sheet: template.html is the layout of the project, and hits.csv its batch; nothing is sent",
    ending=".csv",
    render=render,
    read=read,
)
