"""CSV and JSON lines files of entailment labels: image, hypothesis, label, votes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.columns import fold_name, fold_names
from cxc_eccv.sources.reading import integer, parse_json, read_csv, read_json_lines, shown, text

ENTAILMENT_SCHEMA = pa.schema(
    [
        ("image", pa.string()),
        ("image_id", pa.int64()),
        ("premise", pa.list_(pa.string())),
        ("hypothesis", pa.string()),
        ("caption_id", pa.int64()),
        ("label", pa.int8()),
        ("gold_label", pa.string()),
        ("votes", pa.list_(pa.string())),
        ("pair_id", pa.string()),
    ]
)

COLUMN_ALIASES = {
    "image": ("image", "Flickr30kID", "Flickr30K_ID", "Flikr30kID", "file_name"),
    "image_id": ("image_id",),
    "premise": ("premise", "premises", "premise_captions", "sentence1"),
    "hypothesis": ("hypothesis", "sentence2"),
    "caption_id": ("caption_id",),
    "label": ("label", "gold_label"),
    "votes": ("votes", "annotator_labels"),
    "pair_id": ("pair_id", "pairID"),
}
"""Column to its names in files, first that of this package."""

ID_PATTERN = re.compile("[0-9]{1,18}")

ENTAILMENT_LABELS = {"1": 1, "entailment": 1, "true": 1, "0": 0, "neutral": 0, "contradiction": 0, "false": 0}


@dataclass(frozen=True, slots=True, eq=False)
class EntailmentPairs:
    """Labelled pairs: a table of ``ENTAILMENT_SCHEMA``, and the number of rows that each rule left out."""

    table: pa.Table
    left_out: Mapping[str, int]


def read_entailment(path: Path) -> EntailmentPairs:
    """Labelled pairs of a CSV (``.csv``) or JSON lines (``.jsonl``) file, which may be gzipped."""
    rows: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    seen: dict[tuple[object, ...], str] = {}
    for place, written in _records(path):
        record = dict(zip(fold_names(path, list(written)), written.values(), strict=True))
        row = _row(path, place, record)
        if row["gold_label"] == "-":
            left_out["no majority among the annotators"] += 1
            continue
        identity = (row["pair_id"],) if row["pair_id"] else (row["image"], row["hypothesis"])
        if identity in seen:
            raise MalformedSource(
                path, place, f"pair {shown(identity)} again (first: {seen[identity]})", "every pair once"
            )
        seen[identity] = place
        rows.append(row)
    if not rows:
        raise MalformedSource(path, "", "no labelled pair", "at least one")
    return EntailmentPairs(pa.Table.from_pylist(rows, schema=ENTAILMENT_SCHEMA), dict(left_out))


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if ".csv" in path.suffixes:
        for number, record in enumerate(read_csv(path).to_pylist()):
            yield f"line {number + 2}", {key: _cell(path, number + 2, key, value) for key, value in record.items()}
        return
    for number, record in read_json_lines(path):
        yield f"line {number}", record


def _cell(path: Path, line: int, name: str, value: str) -> object:
    """The value of a cell; lists of premises or votes are JSON."""
    listed = value.startswith("[") and fold_name(name) in (*COLUMN_ALIASES["premise"], *COLUMN_ALIASES["votes"])
    return parse_json(value, path, line) if listed else value


def _row(path: Path, place: str, record: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, aliases in COLUMN_ALIASES.items():
        present = [alias for alias in map(fold_name, aliases) if record.get(alias) not in (None, "")]
        if not present and name in ("image", "hypothesis", "label"):
            raise MalformedSource(path, place, f"columns {shown(sorted(record))}", f"a value for {name!r}")
        row[name] = record[present[0]] if present else None
        meanings = {_read_label(record[alias]) for alias in present} if name == "label" else set()
        if len(meanings) > 1:
            values = " and ".join(f"{alias} {shown(record[alias])}" for alias in present)
            raise MalformedSource(path, place, values, "one label; remove the column that is not people's")
    gold = _name(path, f"{place}, label", str(row["label"]) if type(row["label"]) is bool else row["label"])
    gold = (gold or "").strip().lower()
    if gold not in ENTAILMENT_LABELS and gold != "-":
        raise MalformedSource(path, place, f"label {shown(row['label'])}", f"one of {sorted(ENTAILMENT_LABELS)} or '-'")
    for name in ("image", "pair_id"):
        row[name] = _name(path, f"{place}, {name}", row[name])
    text(path, f"{place}, hypothesis", row["hypothesis"])
    for name in ("image_id", "caption_id"):
        value = row[name]
        if value is not None:
            written = isinstance(value, str) and ID_PATTERN.fullmatch(value)
            row[name] = integer(path, f"{place}, {name}", int(value) if written else value)
    for name, read in (("premise", text), ("votes", _name)):
        value = [] if row[name] is None else row[name]
        items = value if isinstance(value, list) else [value]
        row[name] = [read(path, f"{place}, {name}", item) for item in items]
    return row | {"label": ENTAILMENT_LABELS.get(gold), "gold_label": gold}


def _read_label(value: object) -> object:
    """1 for an entailed pair and 0 for others, from any of its names; other values as they are."""
    name = str(value).strip().lower()
    return ENTAILMENT_LABELS.get(name, name)


def _name(path: Path, place: str, value: object) -> str | None:
    """A text, or a non-negative number as text: files name images and annotators in both ways."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is not int or value < 0:
        raise MalformedSource(path, place, shown(value), "a text, or a number of at least 0")
    return str(integer(path, place, value))
