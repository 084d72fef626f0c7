"""Karpathy splits (``dataset_coco.json``, ``dataset_flickr30k.json``): images with their captions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import first_duplicate, integer, read_json, require_keys, shown, text
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
            images, captions, cut = collected.setdefault(_split(path, place, image["split"]), ([], [], []))
            image_id = _image_id(path, place, image)
            folder = text(path, f"{place}.filepath", image.get("filepath", ""))
            images.append((image_id, image["filename"], folder))
            kept = [(s["sentid"], image_id, s["raw"]) for s in image["sentences"]]
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
        require_keys(path, place, image, ("filename", "split", "sentences"))
        text(path, f"{place}.filename", image["filename"])
        if not isinstance(image["sentences"], list) or not image["sentences"]:
            found = shown(image["sentences"]) if image["sentences"] else "no sentences"
            raise MalformedSource(path, f"{place}.sentences", found, "a list of at least one caption")
        for position, sentence in enumerate(image["sentences"]):
            inner = f"{place}.sentences[{position}]"
            require_keys(path, inner, sentence, ("raw", "sentid"))
            text(path, f"{inner}.raw", sentence["raw"])
            integer(path, f"{inner}.sentid", sentence["sentid"])
        yield place, image


def _split(path: Path, place: str, name: object) -> str:
    if not isinstance(name, str) or name not in SPLITS:
        raise MalformedSource(path, place, f"split {shown(name)}", f"one of {sorted(SPLITS)}")
    return SPLITS[name]


def _image_id(path: Path, place: str, image: Mapping[str, Any]) -> int:
    if "cocoid" in image:
        return integer(path, f"{place}.cocoid", image["cocoid"])
    # Flickr30k has no cocoid; its file name is the Flickr photo number.
    stem = Path(image["filename"]).stem
    if not (stem.isascii() and stem.isdigit() and len(stem) < 19):
        expected = "a key 'cocoid', or a Flickr photo number as the file name"
        raise MalformedSource(path, f"{place}.filename", shown(image["filename"]), expected)
    return int(stem)


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
