"""Benchmarks on images of COCO: RoCOCO (arXiv 2304.10727), MSCOCO-FG (2304.10824) and SugarCrepe (2306.14610).

RoCOCO lists images with their five captions and an altered version of each, in which a word is replaced. MSCOCO-FG has
refined captions of the Karpathy test images and a larger pool of images. SugarCrepe has images of COCO val2017, each
with a caption and a hard negative, in seven parts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.readers.karpathy import CAPTIONS_PER_IMAGE, KarpathySplit
from cxc_eccv.sources.reading import (
    integer,
    read_array,
    read_json,
    read_json_lines,
    read_object,
    require_distinct,
    require_keys,
    shown,
    text,
)


def read_rococo(path: Path, content: KarpathySplit) -> pa.Table:
    """``caption_id``, ``image_id``, ``original``, ``altered`` of every caption of a split, in its order."""
    images, captions = content.images, content.captions
    entries = read_json(path)
    if not isinstance(entries, list) or len(entries) != images.num_rows:
        actual = f"{len(entries):,} entries" if isinstance(entries, list) else shown(entries)
        raise MalformedSource(
            path, "", actual, f"a list of {images.num_rows:,} entries, one for each image of the split"
        )
    texts, altered, at = captions["text"].to_pylist(), list[str](), 0
    for number, (entry, name) in enumerate(zip(entries, images["file_name"].to_pylist(), strict=True)):
        place = f"[{number}]"
        require_keys(path, place, entry, ("image", "caption"))
        if Path(text(path, f"{place}.image", entry["image"])).name != name:
            expected = f"{name}, in the order of the split"
            raise MalformedSource(path, f"{place}.image", shown(entry["image"]), expected)
        for original, changed in _altered_pairs(path, place, entry["caption"]):
            if original != texts[at]:
                expected = f"{shown(texts[at])}, the caption {captions['caption_id'][at].as_py()}"
                raise MalformedSource(path, f"{place}.caption", shown(original), expected)
            altered.append(changed)
            at += 1
    ids = captions.select(["caption_id", "image_id"])
    return ids.append_column("original", captions["text"]).append_column("altered", pa.array(altered, pa.string()))


def _altered_pairs(path: Path, place: str, given: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - JSON holds anything
    """The captions of an image with their altered versions."""
    expected = f"{2 * CAPTIONS_PER_IMAGE} captions, or one more between the originals and the altered ones"
    if not isinstance(given, list) or len(given) not in (2 * CAPTIONS_PER_IMAGE, 2 * CAPTIONS_PER_IMAGE + 1):
        actual = f"{len(given)} captions" if isinstance(given, list) else shown(given)
        raise MalformedSource(path, f"{place}.caption", actual, expected)
    texts = [text(path, f"{place}.caption[{number}]", caption) for number, caption in enumerate(given)]
    blank = [number for number, caption in enumerate(texts) if not caption.strip()]
    if blank:
        raise MalformedSource(path, f"{place}.caption[{blank[0]}]", "only blanks", "a caption")
    return list(zip(texts[:CAPTIONS_PER_IMAGE], texts[-CAPTIONS_PER_IMAGE:], strict=True))


CAPTIONED_IMAGE = re.compile("COCO_val2014_([0-9]{12})")
POOL_FILE = re.compile(r"(?:COCO_(val2014)_)?([0-9]{12})\.jpg")


def read_refined_captions(path: Path) -> pa.Table:
    """``image_id``, ``text`` of ``{"COCO_val2014_000000391895": [five captions]}``, in the order of the file."""
    ids, texts = [], []
    for key, captions in read_object(path, "an object {file name without its ending: [captions]}").items():
        place, named = f"key {shown(key)}", CAPTIONED_IMAGE.fullmatch(key)
        if named is None:
            raise MalformedSource(path, place, "this key", "a name such as 'COCO_val2014_000000391895'")
        if not isinstance(captions, list) or len(captions) != CAPTIONS_PER_IMAGE:
            raise MalformedSource(path, place, shown(captions), f"a list of {CAPTIONS_PER_IMAGE} captions")
        ids += [int(named[1])] * CAPTIONS_PER_IMAGE
        texts += [text(path, place, caption) for caption in captions]
        if not all(caption.strip() for caption in texts[-CAPTIONS_PER_IMAGE:]):
            raise MalformedSource(path, place, "an empty caption", "sentences")
    return pa.table({"image_id": pa.array(ids, pa.int64()), "text": pa.array(texts, pa.string())})


def read_image_pool(path: Path) -> pa.Table:
    """``image_id``, ``file_name``, ``folder`` of an ``.npy`` file of file names, in its order."""
    names = read_array(path, "file names")
    if names.ndim != 1 or names.dtype.kind != "U" or not names.size:
        raise MalformedSource(path, "", f"{names.dtype} of shape {names.shape}", "texts of shape (N,), N > 0")
    matches = []
    for place, name in enumerate(names.tolist()):
        match = POOL_FILE.fullmatch(name)
        if match is None:
            raise MalformedSource(path, f"position {place}", shown(name), "a file name of COCO")
        matches.append(match)
    ids = np.array([int(match[2]) for match in matches], dtype=np.int64)
    require_distinct(path, ids, "position {}", "image")
    folders = [match[1] or "unlabeled2017" for match in matches]
    return pa.table({"image_id": ids, "file_name": names.tolist(), "folder": folders})


SUGARCREPE_PARTS = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
"""How the negative was made, and what was changed, in the order of the paper's tables."""

SUGARCREPE_SCHEMA = pa.schema(
    [
        ("item_id", pa.int64()),
        ("file_name", pa.string()),
        ("image_id", pa.int64()),
        ("caption", pa.string()),
        ("negative", pa.string()),
    ]
)
SUGARCREPE_FIELDS = ("filename", "caption", "negative_caption")
SUGARCREPE_KEY = re.compile("0|[1-9][0-9]{0,17}")
SUGARCREPE_FILE = re.compile(r"([0-9]{12})\.jpg")


def read_sugarcrepe(path: Path) -> pa.Table:
    """The items of one part, in the order of its file: ``{"0": {"filename", "caption", "negative_caption"}}``."""
    data = read_object(path, 'an object {"0": {"filename", "caption", "negative_caption"}}')
    rows = [_read_item(path, key, item) for key, item in data.items()]
    if equal := [row for row in rows if row["caption"] == row["negative"]]:
        actual = f"a negative equal to its caption, {shown(equal[0]['caption'])}"
        raise MalformedSource(path, f"item {equal[0]['item_id']}", actual, "another sentence")
    table = pa.Table.from_pylist(rows, schema=SUGARCREPE_SCHEMA)
    numbers, seen = table["item_id"].to_pylist(), dict[tuple[str, ...], int]()
    for last, number, row in zip([-1, *numbers], numbers, rows, strict=False):
        content = str(row["file_name"]), str(row["caption"]), str(row["negative"])
        if number <= last:
            raise MalformedSource(path, f"item {number}", f"item {last} before it", "ascending keys")
        if content in seen:
            raise MalformedSource(path, f"item {number}", f"item {seen[content]} again", "every item once")
        seen[content] = number
    return table


def _read_item(path: Path, key: str, item: object) -> dict[str, int | str]:
    if not SUGARCREPE_KEY.fullmatch(key):
        raise MalformedSource(path, f"key {shown(key)}", "this key", "a whole number")
    place = f"item {key}"
    record = require_keys(path, place, item, SUGARCREPE_FIELDS)
    if len(record) > len(SUGARCREPE_FIELDS):
        raise MalformedSource(
            path, place, f"keys {shown(sorted(record))}", f"no other than {', '.join(SUGARCREPE_FIELDS)}"
        )
    name, caption, negative = (text(path, place, record[field]) for field in SUGARCREPE_FIELDS)
    named = SUGARCREPE_FILE.fullmatch(name)
    if named is None:
        raise MalformedSource(
            path, f"{place}, filename", shown(name), "a file name of COCO 2017 such as '000000085329.jpg'"
        )
    for field, written in (("caption", caption), ("negative_caption", negative)):
        if not written.strip():
            raise MalformedSource(path, f"{place}, {field}", shown(written), "a sentence")
    return {"item_id": int(key), "file_name": name, "image_id": int(named[1]), "caption": caption, "negative": negative}


SUGARCREPE_PP_PARTS = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att")
"""The parts of SugarCrepe that SugarCrepe++ has items of, in the same order."""

SUGARCREPE_PP_FIELDS = ("filename", "caption", "caption2", "negative_caption")


def read_sugarcrepe_pp(path: Path) -> pa.Table:
    """The items of one part, in the order of its file: a list of SugarCrepe's fields, an id and ``caption2``."""
    entries = read_json(path)
    if not isinstance(entries, list) or not entries:
        raise MalformedSource(path, "", shown(entries), "a list of items")
    rows = []
    for place, entry in enumerate(entries):
        record = require_keys(path, f"[{place}]", entry, ("id", *SUGARCREPE_PP_FIELDS))
        number = integer(path, f"[{place}].id", record["id"])
        item = {field: record[field] for field in SUGARCREPE_FIELDS}
        other = text(path, f"[{place}].caption2", record["caption2"])
        if not other.strip():
            raise MalformedSource(path, f"[{place}].caption2", shown(other), "a sentence")
        rows.append({**_read_item(path, str(number), item), "caption2": other})
    schema = pa.schema([*SUGARCREPE_SCHEMA, ("caption2", pa.string())])
    table = pa.Table.from_pylist(rows, schema=schema)
    require_distinct(path, np.asarray(table["item_id"]), "[{}].id", "item")
    return table


THUMB_SCHEMA = pa.schema(
    [
        ("item_id", pa.int64()),
        ("image_id", pa.int64()),
        ("file_name", pa.string()),
        ("system", pa.string()),
        ("caption", pa.string()),
        ("precision", pa.float64()),
        ("recall", pa.float64()),
    ]
)


def read_thumb(path: Path) -> pa.Table:
    """The rated captions, in the order of the file, which numbers them: precision and recall from 1 to 5."""
    rows: list[tuple[int, int, str, str, str, float, float]] = []
    for number, record in read_json_lines(path):
        place = f"line {number}"
        require_keys(path, place, record, ("SYS", "hyp", "image", "P", "R"))
        system, caption, name = (text(path, f"{place}, {key}", record[key]) for key in ("SYS", "hyp", "image"))
        named = CAPTIONED_IMAGE.fullmatch(name.removesuffix(".jpg"))
        if named is None:
            raise MalformedSource(path, f"{place}, image", shown(name), "a name as COCO_val2014_000000000974.jpg")
        ratings = [record[key] for key in ("P", "R")]
        if not all(isinstance(rating, int | float) and 1 <= rating <= 5 for rating in ratings):
            raise MalformedSource(path, place, f"P {shown(ratings[0])}, R {shown(ratings[1])}", "ratings from 1 to 5")
        precision, recall = map(float, ratings)
        rows.append((len(rows), int(named[1]), name, system, caption, precision, recall))
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), THUMB_SCHEMA, strict=True)],
        schema=THUMB_SCHEMA,
    )
