"""Tables and judges that the command line names: captions, labels and probabilities of pairs, classifiers."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from cxc_eccv.discovery import study_modules
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.sources.columns import (
    PROBABILITY,
    TABLE_ENDINGS,
    WHOLE_NUMBER,
    Forms,
    find_ending,
    read_columns,
    refuse_misnamed,
)
from cxc_eccv.unjudged.judges import Judge, read_judge_file

PAIR_ID_FORMS: Forms = {"image_id": WHOLE_NUMBER, "caption_id": WHOLE_NUMBER}

CLASSIFIER_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def load_judge(value: str, images: Path | None = None, device: str | None = None) -> pa.Table | Judge:
    """The value of ``--judge``: the table in a file, or a classifier by its folder or Hub id."""
    path = Path(value)
    if find_ending(path) in TABLE_ENDINGS:
        return read_judge_file(path)
    if not value or not (path.is_dir() or CLASSIFIER_ID.fullmatch(value)):
        known = (
            f"a file of probabilities or labels ({', '.join(TABLE_ENDINGS)})",
            "the folder or Hub id of a classifier",
        )
        raise UnknownName("judge", value, known)
    for module in study_modules("judge"):
        judge: Judge = module.load_judge(value, images, device)
        return judge
    raise InvalidOption(f"{value}: no study is installed that can judge pairs")


def read_captions(path: Path) -> pa.Table:
    """The captions in a file, with caption_id and text; a cell of CSV is one line."""
    return read_columns(path, "captions", {"caption_id": WHOLE_NUMBER}, "caption_id", "text")


def read_probabilities(path: Path) -> pa.Table:
    """The probabilities of pairs in a file, with ``probability`` and the columns that name the pairs."""
    return read_columns(path, "probabilities", {**PAIR_ID_FORMS, "probability": PROBABILITY}, "probability")


def read_summaries(path: Path) -> pa.Table:
    """The summaries in a file, with image_id and summary, and query_position if an image has several."""
    forms = {"image_id": WHOLE_NUMBER, "query_position": WHOLE_NUMBER}
    table = read_columns(path, "summaries", forms, "image_id", "summary")
    if "query_position" not in table.column_names:
        expected = "positions of queries in a column query_position"
        refuse_misnamed(path, table, ("image_id", "summary"), "query_position", expected)
    return table
