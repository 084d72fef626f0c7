"""Karpathy splits (``dataset_coco.json``, ``dataset_flickr30k.json``): images with their captions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import first_duplicate, read_json
from cxc_eccv.types import IntArray

__all__ = ["CAPTIONS_PER_IMAGE", "SPLITS", "KarpathySplit", "fold_restval", "read_karpathy"]

CAPTIONS_PER_IMAGE = 5
"""The field cuts the sixth and seventh captions of some images; 25,000 remain in val and in test."""

SPLITS = {"train": "train", "restval": "restval", "val": "validation", "test": "test"}
"""Name in the raw file to name in this package."""

IMAGE_SCHEMA = pa.schema([("image_id", pa.int64()), ("file_name", pa.string()), ("folder", pa.string())])
CAPTION_SCHEMA = pa.schema([("caption_id", pa.int64()), ("image_id", pa.int64()), ("text", pa.string())])


@dataclass(frozen=True, slots=True, eq=False)
class KarpathySplit:
    """Images and captions of one split, in the order of the raw file.

    Attributes:
        images: ``image_id``, ``file_name``, ``folder`` (``val2014``; empty for Flickr30k).
        captions: ``caption_id``, ``image_id``, ``text`` exactly as in the file, blanks and line breaks kept.
        cut_caption_ids: captions beyond the limit per image, which are in no table.
    """

    images: pa.Table
    captions: pa.Table
    cut_caption_ids: IntArray

    @property
    def image_ids(self) -> IntArray:
        """(images,) int64."""
        return np.asarray(self.images["image_id"], dtype=np.int64)

    @property
    def caption_ids(self) -> IntArray:
        """(captions,) int64."""
        return np.asarray(self.captions["caption_id"], dtype=np.int64)

    @property
    def caption_image_ids(self) -> IntArray:
        """(captions,) int64: the image each caption was written for."""
        return np.asarray(self.captions["image_id"], dtype=np.int64)


def read_karpathy(
    paths: Sequence[Path], *, captions_per_image: int | None = CAPTIONS_PER_IMAGE
) -> dict[str, KarpathySplit]:
    """Read one file that holds all splits, or one file per split.

    Args:
        paths: the files; together they hold every image once.
        captions_per_image: keep the first so many captions of an image; None keeps all.

    Returns:
        Split name (``train``, ``restval``, ``validation``, ``test``) to its tables.

    Raises:
        MalformedSource: a missing key, an unknown split, an image or caption given twice.
    """
    collected: dict[str, tuple[list[tuple[int, str, str]], list[tuple[int, int, str]], list[int]]] = {}
    for path in paths:
        for place, image in _images(path):
            split = SPLITS.get(image["split"])
            if split is None:
                raise MalformedSource(path, place, f"split {image['split']!r}", f"one of {sorted(SPLITS)}")
            images, captions, cut = collected.setdefault(split, ([], [], []))
            image_id = _image_id(path, place, image)
            images.append((image_id, image["filename"], image.get("filepath", "")))
            kept = [(int(s["sentid"]), image_id, s["raw"]) for s in image["sentences"]]
            captions += kept[:captions_per_image]
            cut += [caption_id for caption_id, _, _ in kept[len(kept[:captions_per_image]) :]]
    splits = {name: _tables(*collected[name]) for name in SPLITS.values() if name in collected}
    _check_unique(paths, splits)
    return splits


def fold_restval(splits: Mapping[str, KarpathySplit]) -> dict[str, KarpathySplit]:
    """The splits with ``restval`` appended to ``train``, as most papers train (113,287 images on COCO)."""
    folded = {name: split for name, split in splits.items() if name != "restval"}
    parts = [splits[name] for name in ("train", "restval") if name in splits]
    if parts:
        folded["train"] = KarpathySplit(
            pa.concat_tables([part.images for part in parts]).combine_chunks(),
            pa.concat_tables([part.captions for part in parts]).combine_chunks(),
            np.concatenate([part.cut_caption_ids for part in parts]),
        )
    return {name: folded[name] for name in SPLITS.values() if name in folded}


def _images(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("images"), list) or not data["images"]:
        raise MalformedSource(path, "", "no list under the key 'images'", "the layout of dataset_coco.json")
    for number, image in enumerate(data["images"]):
        place = f"images[{number}]"
        _require(path, place, image, ("filename", "split", "sentences"))
        if not image["sentences"]:
            raise MalformedSource(path, place, "no sentences", "at least one caption")
        for position, sentence in enumerate(image["sentences"]):
            _require(path, f"{place}.sentences[{position}]", sentence, ("raw", "sentid"))
        yield place, image


def _require(path: Path, place: str, record: object, keys: Iterable[str]) -> None:
    if not isinstance(record, dict):
        raise MalformedSource(path, place, type(record).__name__, "an object")
    for key in keys:
        if key not in record:
            raise MalformedSource(path, place, f"keys {sorted(record)}", f"a key {key!r}")


def _image_id(path: Path, place: str, image: Mapping[str, Any]) -> int:
    # Flickr30k has no cocoid; its file name is the Flickr photo number.
    found = image.get("cocoid", Path(image["filename"]).stem)
    try:
        return int(found)
    except ValueError:
        raise MalformedSource(path, place, f"image id {found!r}", "a whole number") from None


def _tables(images: list[tuple[int, str, str]], captions: list[tuple[int, int, str]], cut: list[int]) -> KarpathySplit:
    return KarpathySplit(
        pa.Table.from_arrays([pa.array(column) for column in zip(*images, strict=True)], schema=IMAGE_SCHEMA),
        pa.Table.from_arrays([pa.array(column) for column in zip(*captions, strict=True)], schema=CAPTION_SCHEMA),
        np.asarray(cut, dtype=np.int64),
    )


def _check_unique(paths: Sequence[Path], splits: Mapping[str, KarpathySplit]) -> None:
    files = ", ".join(str(path) for path in paths)
    for kind in ("image_ids", "caption_ids"):
        names = np.repeat(list(splits), [getattr(split, kind).size for split in splits.values()])
        ids = np.concatenate([getattr(split, kind) for split in splits.values()])
        twice = first_duplicate(ids)
        if twice is not None:
            where = sorted(set(names[ids == ids[twice]].tolist()))
            found = f"{kind[:-4]} {ids[twice]} twice, in split {' and '.join(where)}"
            raise MalformedSource(files, "", found, f"every {kind[:-4]} once")
