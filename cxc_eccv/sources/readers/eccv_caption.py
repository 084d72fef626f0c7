"""JSON files of ECCV Caption: positives of the Karpathy test split, and the items that it removed."""

from __future__ import annotations

import tomllib
from importlib import resources
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import integer, read_json, shown

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
    positives = np.fromiter(chain.from_iterable(data.values()), np.int64, sum(lengths))
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
    rows = []
    for group in groups:
        rows += [{"kind": group["kind"], "id": item, "reason": group["reason"]} for item in group["ids"]]
    schema = pa.schema([("kind", pa.string()), ("id", pa.int64()), ("reason", pa.string())])
    return pa.Table.from_pylist(rows, schema=schema)
