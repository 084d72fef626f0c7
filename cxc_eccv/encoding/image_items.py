"""The images to encode: an id and a file, or an image, each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.types.ids import all_unique

__all__ = ["ImageItem", "image_items"]

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
