"""Labels of COCO's pairs: ratings of the Crisscrossed Captions, positives of ECCV Caption, entailment labels."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import MalformedSource, UnknownName
from cxc_eccv.sources.columns import fold_name, fold_names
from cxc_eccv.sources.reading import (
    first_repeated_pair,
    integer,
    parse_json,
    read_csv,
    read_json,
    read_json_lines,
    shown,
    text,
)
from cxc_eccv.types import FloatArray, IntArray

KINDS = {
    "sts": (("caption1", "caption"), ("caption2", "caption")),
    "sis": (("image1", "image"), ("image2", "image")),
    "sits": (("caption", "caption"), ("image", "image")),
}
"""Similarity kind to its two id columns and their modality."""

PATTERNS = {
    "caption": (r"^COCO_(?:train|val)2014:sentid:(?P<id>\d{1,18})$", "a caption id such as COCO_val2014:sentid:190268"),
    "image": (r"^COCO_(?:train|val)2014_(?P<id>\d{12})\.jpg$", "an image such as COCO_val2014_000000032001.jpg"),
}

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def read_ratings(path: Path, kind: str) -> pa.Table:
    """Ratings of an aggregated file, such as ``sts_val.csv``, of ``sts``, ``sis`` or ``sits``."""
    table = _read_columns(path, kind, "agg_score", "sampling_method")
    left, right = _parse_pairs(path, kind, table)
    _check_pairs(path, left, right, same_modality=kind != "sits")
    rating = _scores(path, table["agg_score"], "agg_score")
    columns = [pa.array(left), pa.array(right), pa.array(rating), table["sampling_method"].combine_chunks()]
    return pa.table(columns, names=["left_id", "right_id", "rating", "sampling_method"])


def read_annotators(path: Path, kind: str) -> pa.Table:
    """Ratings by single annotators of a file such as ``sts_val_raw.csv``, in its order."""
    table = _read_columns(path, kind, "sampling_method")
    known = (*dict(KINDS[kind]), "sampling_method")
    scores = [name for name in table.column_names if name not in known]
    if len(scores) != 1:
        raise MalformedSource(path, "line 1", f"columns {shown(table.column_names)}", "one column of scores")
    left, right = _parse_pairs(path, kind, table)
    return pa.table({"left_id": left, "right_id": right, "rating": _scores(path, table[scores[0]], scores[0])})


def _read_columns(path: Path, kind: str, *others: str) -> pa.Table:
    if kind not in KINDS:
        raise UnknownName("similarity kind", kind, KINDS)
    return read_csv(path, (*dict(KINDS[kind]), *others))


def _parse_pairs(path: Path, kind: str, table: pa.Table) -> list[IntArray]:
    return [_parse_ids(path, table[name], name, modality) for name, modality in KINDS[kind]]


def _parse_ids(path: Path, column: pa.ChunkedArray, name: str, modality: str) -> IntArray:
    """(N,) ids, by the group ``id`` of a pattern that all must match."""
    pattern, expected = PATTERNS[modality]
    parts = pc.extract_regex(column, pattern=pattern)
    bad = np.flatnonzero(np.asarray(pc.is_null(parts)))
    if bad.size:
        place = f"line {bad[0] + 2}, column {name!r}"
        raise MalformedSource(path, place, shown(column[bad[0]].as_py()), expected)
    ids = pc.cast(pc.struct_field(parts, "id"), pa.int64())
    return np.asarray(ids, dtype=np.int64)


def _scores(path: Path, column: pa.ChunkedArray, name: str) -> FloatArray:
    numeric = np.asarray(pc.match_substring_regex(column, NUMBER))
    bad = np.flatnonzero(~numeric)
    if not bad.size:
        scores = np.asarray(pc.cast(column, pa.float64()))
        bad = np.flatnonzero((scores < 0) | (scores > 5))
    if bad.size:
        place = f"line {bad[0] + 2}, column {name!r}"
        raise MalformedSource(path, place, shown(column[bad[0]].as_py()), "a number in [0, 5]")
    return scores


def _check_pairs(path: Path, left: IntArray, right: IntArray, *, same_modality: bool) -> None:
    twice = first_repeated_pair(left, right)
    if twice is not None:
        actual = f"the pair ({left[twice]}, {right[twice]}) again"
        raise MalformedSource(path, f"line {twice + 2}", actual, "every ordered pair once")
    alike = np.flatnonzero(left == right)
    if same_modality and alike.size:
        actual = f"item {left[alike[0]]} paired with itself"
        raise MalformedSource(path, f"line {alike[0] + 2}", actual, "two different items")


UNREACHABLE_CAPTIONS = (144675, 467259)
"""Captions in eccv_image_to_caption.json that are not among the 25,000 of the Karpathy test split."""


def read_positives(path: Path) -> pa.Table:
    """``query_id``, ``item_id`` int64 of a file of ``{query id: [positive ids]}``, in its order."""
    data = read_json(path)
    if not isinstance(data, dict) or not data:
        raise MalformedSource(path, "", shown(data), "an object {query id: [positive ids]}")
    for query, items in data.items():
        _check_query(path, query, items)
    lengths = [len(items) for items in data.values()]
    queries = np.repeat(np.array([int(query) for query in data], dtype=np.int64), lengths)
    positives = np.fromiter((item for items in data.values() for item in items), np.int64, sum(lengths))
    return pa.table({"query_id": queries, "item_id": positives})


def _check_query(path: Path, query: str, items: object) -> None:
    if not (query.isascii() and query.isdigit() and len(query) < 19 and str(int(query)) == query):
        raise MalformedSource(path, f"key {shown(query)}", "this key", "a whole number without leading zeros")
    place = f"key {query!r}"
    if not isinstance(items, list) or not items:
        raise MalformedSource(path, place, shown(items), "a list of at least one positive id")
    for item in items:
        integer(path, place, item)
    if len(set(items)) < len(items):
        raise MalformedSource(path, place, "a positive twice", "every positive once")


def invalid_items() -> pa.Table:
    """Captions and images that ECCV Caption removed from the Karpathy test split (its appendix C.1)."""
    content = (resources.files("cxc_eccv.sources") / "invalid_items.toml").read_text(encoding="utf-8")
    groups = tomllib.loads(content)["group"]
    rows = [{"kind": group["kind"], "id": item, "reason": group["reason"]} for group in groups for item in group["ids"]]
    schema = pa.schema([("kind", pa.string()), ("id", pa.int64()), ("reason", pa.string())])
    return pa.Table.from_pylist(rows, schema=schema)


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

ALIASES = {
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

DIGITS = re.compile("[0-9]{1,18}")

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
    listed = value.startswith("[") and fold_name(name) in (*ALIASES["premise"], *ALIASES["votes"])
    return parse_json(value, path, line) if listed else value


def _row(path: Path, place: str, record: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, aliases in ALIASES.items():
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
            written = isinstance(value, str) and DIGITS.fullmatch(value)
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
