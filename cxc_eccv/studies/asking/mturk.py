"""Amazon Mechanical Turk: write a HIT of every sheet, and read the results of a batch.

The page of a questionnaire is the template of all HITs, and the table has a row per HIT. Its questions are in Base64,
so that no sign of them is lost or means something to a template.

References:
    Chun et al., ECCV Caption, ECCV 2022, section 3.2: a HIT has 20 pairs.
    Amazon Mechanical Turk, Templating and Submitting from JavaScript, https://docs.aws.amazon.com/AWSMechTurk.
"""

from __future__ import annotations

import csv
import io
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import parse_json, read_text, require_keys, shown
from cxc_eccv.studies.asking.formats import Format, Record
from cxc_eccv.studies.asking.questionnaire import ADDRESSES, Handout, ShownQuestion, describe_page, render_page
from cxc_eccv.studies.asking.schemes import Scheme

OF_A_SHEET = ("questionnaire", "sheets", "images", "asked")
"""Data of the page that differ between HITs."""

MOST_BYTES = 65_535
"""Largest page of a HIT."""

COLUMNS = ("WorkerId", "AssignmentStatus", "Answer.answers")
"""Columns of the results that are read."""


def render(questions: Sequence[ShownQuestion], handout: Handout) -> Mapping[str, str]:
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


def read(path: Path, scheme: Scheme) -> Iterator[tuple[str, Record]]:
    """Every answer of an assignment that was not rejected."""
    rows = csv.DictReader(io.StringIO(read_text(path)))
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        expected = f"a column {missing[0]!r}, as the results of a batch have it"
        raise MalformedSource(path, "line 1", f"columns {shown(rows.fieldnames)}", expected)
    for row in rows:
        worker, status, text = (row[name] or "" for name in COLUMNS)
        if status == "Rejected":
            continue
        answers = parse_json(text, path, rows.line_num)
        if not isinstance(answers, list):
            raise MalformedSource(path, f"line {rows.line_num}", shown(answers), "a list of answers")
        for number, record in enumerate(answers):
            where = f"line {rows.line_num}, [{number}]"
            yield where, require_keys(path, where, record, ()) | {"worker": worker}


MTURK = Format(
    name="mturk",
    exported="a HIT per sheet: template.html is the layout of the project, and hits.csv its batch; nothing is sent",
    ending=".csv",
    render=render,
    read=read,
)
