"""CSV files of the Crisscrossed Captions: ratings of pairs, aggregated and by single annotators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import MalformedSource, UnknownName
from cxc_eccv.sources.reading import first_repeated_pair, read_csv, shown
from cxc_eccv.types import FloatArray, IntArray

RATING_COLUMNS = {
    "sts": (("caption1", "caption"), ("caption2", "caption")),
    "sis": (("image1", "image"), ("image2", "image")),
    "sits": (("caption", "caption"), ("image", "image")),
}
"""Similarity kind to its two id columns and their modality."""

PATTERNS = {
    "caption": (r"^COCO_(?:train|val)2014:sentid:(?P<id>\d{1,18})$", "a caption id such as COCO_val2014:sentid:190268"),
    "image": (r"^COCO_(?:train|val)2014_(?P<id>\d{12})\.jpg$", "an image such as COCO_val2014_000000032001.jpg"),
}

NUMBER_PATTERN = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


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
    known = (*dict(RATING_COLUMNS[kind]), "sampling_method")
    scores = [name for name in table.column_names if name not in known]
    if len(scores) != 1:
        raise MalformedSource(path, "line 1", f"columns {shown(table.column_names)}", "one column of scores")
    left, right = _parse_pairs(path, kind, table)
    return pa.table({"left_id": left, "right_id": right, "rating": _scores(path, table[scores[0]], scores[0])})


def _read_columns(path: Path, kind: str, *others: str) -> pa.Table:
    if kind not in RATING_COLUMNS:
        raise UnknownName("similarity kind", kind, RATING_COLUMNS)
    return read_csv(path, (*dict(RATING_COLUMNS[kind]), *others))


def _parse_pairs(path: Path, kind: str, table: pa.Table) -> list[IntArray]:
    return [_parse_ids(path, table[name], name, modality) for name, modality in RATING_COLUMNS[kind]]


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
    numeric = np.asarray(pc.match_substring_regex(column, NUMBER_PATTERN))
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
