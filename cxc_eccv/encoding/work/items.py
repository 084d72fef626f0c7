"""The captions and images to encode: an id, and a text or a file, each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.runs.checks import checked_ids
from cxc_eccv.types import IntArray
from cxc_eccv.types.ids import all_unique

__all__ = ["ImageItem", "caption_items", "image_items"]

COLUMNS = ("caption_id", "text")


def caption_items(captions: Any) -> tuple[IntArray, list[str]]:  # noqa: ANN401 - a table, a dataset, or pairs
    """Ids and texts.

    Args:
        captions: a pyarrow table, or anything else with columns ``caption_id`` and ``text`` by name (a dataset, a data
            frame, a dict of lists); or (caption id, text) each.

    Raises:
        InvalidOption: no caption, a column is missing, or an entry is no such pair.
        MalformedRun: ids that repeat or are no whole numbers, a text that is none.

    Example:
        >>> caption_items([(770337, "A man on a moped.")])
        (array([770337]), ['A man on a moped.'])
    """
    ids, texts = _columns(captions)
    if not ids:
        raise InvalidOption("no caption to encode; give at least one")
    for number, text in zip(ids, texts, strict=True):
        if not isinstance(text, str):
            raise MalformedRun(f"captions: that of id {number} is {text!r}, no text; give every caption a text")
    return checked_ids("captions", "caption_id", np.asarray(ids)), texts


def _columns(captions: Any) -> tuple[list[Any], list[Any]]:  # noqa: ANN401
    names = getattr(captions, "column_names", None) or list(getattr(captions, "keys", list)())
    if not names:
        pairs = list(captions)
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise InvalidOption("captions: give (caption id, text) each, or a table with caption_id and text")
        return [number for number, _ in pairs], [text for _, text in pairs]
    lacking = [name for name in COLUMNS if name not in list(names)]
    if lacking:
        raise InvalidOption(f"captions: have the columns {', '.join(names)}, lack {' and '.join(lacking)}")
    ids, texts = (captions[name] for name in COLUMNS)
    if isinstance(captions, pa.Table):
        return ids.to_pylist(), texts.to_pylist()
    return list(ids), list(texts)


ImageItem = tuple[int, Path | Image.Image]
COCO_NAME = re.compile(r"COCO_(?:train|val|test)\d{4}_(\d{12})\.(?:jpe?g|png)", re.IGNORECASE)


def image_items(images: str | Path | Iterable[tuple[Any, Any]]) -> list[ImageItem]:
    """Ids with their images.

    Args:
        images: (image id, file or Pillow image) each; or a folder, of which all files with a COCO name are taken, at
            any depth, in the order of their ids.

    Raises:
        InvalidOption: no such folder, none of the files in it has a COCO name, or an entry that is no such pair.
        MalformedRun: two images have the same id.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "COCO_val2014_000000391895.jpg").touch()
        >>> [(number, path.name) for number, path in image_items(folder)]
        [(391895, 'COCO_val2014_000000391895.jpg')]
    """
    items = _of_folder(Path(images)) if isinstance(images, str | Path) else [_checked(*pair) for pair in images]
    ids = np.array([number for number, _ in items], dtype=np.int64)
    if not ids.size:
        raise InvalidOption("no image to encode; give at least one")
    if not all_unique(ids):
        values, counts = np.unique(ids, return_counts=True)
        repeated = values[counts > 1][0]
        places = [str(source) for number, source in items if number == repeated]
        raise MalformedRun(f"image id {repeated} is given {len(places)} times: {places[0]} and {places[1]}")
    return items


def _of_folder(folder: Path) -> list[ImageItem]:
    if not folder.is_dir():
        raise InvalidOption(f"{folder} is not a folder. Name the one that holds the images.")
    named = ((COCO_NAME.fullmatch(path.name), path) for path in folder.rglob("*"))
    items: list[ImageItem] = [(int(name[1]), path) for name, path in named if name]
    if not items:
        raise InvalidOption(
            f"{folder} holds no file named like COCO_val2014_000000391895.jpg; give images as (image id, file) pairs"
        )
    return sorted(items, key=lambda item: (item[0], str(item[1])))


def _checked(number: Any, source: Any) -> ImageItem:  # noqa: ANN401 - whatever the caller has
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise InvalidOption(f"image id {number!r} is no whole number; use the COCO ids")
    if not isinstance(source, str | Path | Image.Image):
        raise InvalidOption(f"image {number} is a {type(source).__name__}; give a file or a Pillow image")
    return int(number), source if isinstance(source, Image.Image) else Path(source)
