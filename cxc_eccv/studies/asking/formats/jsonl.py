"""JSON lines: a line per question, whose answer a person fills in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cxc_eccv.sources.reading import read_json_lines
from cxc_eccv.studies.asking.formats import Format, Record
from cxc_eccv.studies.asking.instructions import write_instructions
from cxc_eccv.studies.asking.questionnaire import Handout, ShownQuestion
from cxc_eccv.studies.asking.schemes import Scheme

EMPTY: Record = {"answer": None, "details": {}, "remark": "", "seconds": None}


def render(questions: Sequence[ShownQuestion], handout: Handout) -> Mapping[str, str]:
    """The lines and their instructions."""
    empty = {"worker": handout.worker or None, **EMPTY}
    lines = [json.dumps(question | empty, ensure_ascii=False) for question in questions]
    return {"questions.jsonl": "".join(f"{line}\n" for line in lines), "instructions.md": write_instructions(handout)}


def read(path: Path, scheme: Scheme) -> Iterator[tuple[str, Record]]:
    """Every line."""
    for number, record in read_json_lines(path):
        yield f"line {number}", record


FORMAT = Format(
    name="jsonl",
    exported="a line per question; each person fills in worker, answer and details of a copy",
    ending=".jsonl",
    render=render,
    read=read,
)
