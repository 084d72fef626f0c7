"""Crisscrossed Captions (arXiv 2004.15020): graded 0-5 similarity of caption and image pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import MalformedSource, UnknownName
from cxc_eccv.sources.reading import first_duplicate, parse_ids, read_csv, shown
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["KINDS", "read_annotators", "read_ratings"]

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
    """Read one aggregated file (``sts_val.csv`` and its like).

    Args:
        path: the CSV file.
        kind: ``sts`` (caption, caption), ``sis`` (image, image) or ``sits`` (caption, image).

    Returns:
        ``left_id``, ``right_id`` int64, ``rating`` float64 in [0, 5], ``sampling_method`` string; in file
        order. SIS holds many pairs in both orders, each with its own rating.

    Raises:
        MalformedSource: a missing column, a bad id, a score that is no number in [0, 5], an ordered pair
            given twice, an item paired with itself.
    """
    if kind not in KINDS:
        raise UnknownName("similarity kind", kind, KINDS)
    (left_name, left_modality), (right_name, right_modality) = KINDS[kind]
    table = read_csv(path, (left_name, right_name, "agg_score", "sampling_method"))
    left = parse_ids(path, table[left_name], left_name, *PATTERNS[left_modality])
    right = parse_ids(path, table[right_name], right_name, *PATTERNS[right_modality])
    _check_pairs(path, left, right, same_modality=left_modality == right_modality)
    rating = _scores(path, table["agg_score"], "agg_score")
    columns = [pa.array(left), pa.array(right), pa.array(rating), table["sampling_method"].combine_chunks()]
    return pa.table(columns, names=["left_id", "right_id", "rating", "sampling_method"])


def read_annotators(path: Path, kind: str) -> pa.Table:
    """Read one file of the annotators' single ratings (``sts_val_raw.csv``): one row per rating.

    As its authors describe it, the file has two columns of ids, one of scores under a name of its own, and
    ``sampling_method``.

    Returns:
        ``left_id``, ``right_id`` int64 and ``rating`` float64 in [0, 5], in file order.

    Raises:
        MalformedSource: other columns, a bad id, a score that is no number in [0, 5].
    """
    if kind not in KINDS:
        raise UnknownName("similarity kind", kind, KINDS)
    (left_name, left_modality), (right_name, right_modality) = KINDS[kind]
    known = (left_name, right_name, "sampling_method")
    table = read_csv(path, known)
    scores = [name for name in table.column_names if name not in known]
    if len(scores) != 1:
        raise MalformedSource(path, "line 1", f"columns {shown(table.column_names)}", "one column of scores")
    left = parse_ids(path, table[left_name], left_name, *PATTERNS[left_modality])
    right = parse_ids(path, table[right_name], right_name, *PATTERNS[right_modality])
    return pa.table({"left_id": left, "right_id": right, "rating": _scores(path, table[scores[0]], scores[0])})


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
    _, pair = np.unique(np.stack([left, right]), axis=1, return_inverse=True)
    twice = first_duplicate(pair.reshape(-1))
    if twice is not None:
        found = f"the pair ({left[twice]}, {right[twice]}) a second time"
        raise MalformedSource(path, f"line {twice + 2}", found, "every ordered pair once")
    alike = np.flatnonzero(left == right)
    if same_modality and alike.size:
        found = f"item {left[alike[0]]} paired with itself"
        raise MalformedSource(path, f"line {alike[0] + 2}", found, "two different items")
