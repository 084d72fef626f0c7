"""SugarCrepe (arXiv 2306.14610): images of COCO val2017, each with a caption and a hard negative, in seven parts."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import read_json, require_keys, shown, text

SUGARCREPE_PARTS = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
"""In the order of the paper's tables: how the negative was made, and what was changed."""

SCHEMA = pa.schema(
    [
        ("item_id", pa.int64()),
        ("file_name", pa.string()),
        ("image_id", pa.int64()),
        ("caption", pa.string()),
        ("negative", pa.string()),
    ]
)
FIELDS = ("filename", "caption", "negative_caption")
KEY = re.compile("0|[1-9][0-9]{0,17}")
FILE_NAME = re.compile(r"([0-9]{12})\.jpg")


def read_sugarcrepe(path: Path) -> pa.Table:
    """The items of one part, in the order of its file: ``{"0": {"filename", "caption", "negative_caption"}}``."""
    data = read_json(path)
    if not isinstance(data, dict) or not data:
        raise MalformedSource(path, "", shown(data), 'an object {"0": {"filename", "caption", "negative_caption"}}')
    rows = [_read_item(path, key, item) for key, item in data.items()]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    numbers, seen = table["item_id"].to_pylist(), dict[tuple[str, ...], int]()
    for last, number, row in zip([-1, *numbers], numbers, rows, strict=False):
        content = str(row["file_name"]), str(row["caption"]), str(row["negative"])
        if number <= last:
            raise MalformedSource(path, f"item {number}", f"it after item {last}", "keys that rise")
        if content in seen:
            raise MalformedSource(path, f"item {number}", f"item {seen[content]} again", "every item once")
        seen[content] = number
    return table


def _read_item(path: Path, key: str, item: object) -> dict[str, int | str]:
    if not KEY.fullmatch(key):
        raise MalformedSource(path, f"key {shown(key)}", "this key", "a whole number")
    place = f"item {key}"
    record = require_keys(path, place, item, FIELDS)
    if len(record) > len(FIELDS):
        raise MalformedSource(path, place, f"keys {shown(sorted(record))}", f"no other than {', '.join(FIELDS)}")
    name, caption, negative = (text(path, place, record[field]) for field in FIELDS)
    named = FILE_NAME.fullmatch(name)
    if named is None:
        raise MalformedSource(path, f"{place}, filename", shown(name), "a name of COCO 2017 such as '000000085329.jpg'")
    for field, written in (("caption", caption), ("negative_caption", negative)):
        if not written.strip():
            raise MalformedSource(path, f"{place}, {field}", shown(written), "a sentence")
    if caption == negative:
        raise MalformedSource(path, place, f"a negative equal to its caption, {shown(caption)}", "another sentence")
    return {"item_id": int(key), "file_name": name, "image_id": int(named[1]), "caption": caption, "negative": negative}
