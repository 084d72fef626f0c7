"""Images and captions of COCO and Flickr30k by split, from Karpathy's files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.catalog import SPLIT_OF_RAW, SPLITS
from cxc_eccv.sources.reading import first_duplicate, integer, read_json, require_keys, shown, text
from cxc_eccv.types import IntArray, find_positions

CAPTIONS_PER_IMAGE = 5  # papers drop the sixth and seventh captions of some images; 25,000 remain in val and test

IMAGE_SCHEMA = pa.schema([("image_id", pa.int64()), ("file_name", pa.string()), ("folder", pa.string())])
CAPTION_SCHEMA = pa.schema([("caption_id", pa.int64()), ("image_id", pa.int64()), ("text", pa.string())])


@dataclass(frozen=True, slots=True, eq=False)
class KarpathySplit:
    """Images and captions of one split, in the order of the raw file."""

    images: pa.Table  # of IMAGE_SCHEMA; the folder is val2014, for example, and empty for Flickr
    captions: pa.Table  # of CAPTION_SCHEMA; texts as in the file
    cut_caption_ids: IntArray  # captions beyond the limit per image, which are in no table

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
        """(captions,) int64: the image that each caption describes."""
        return np.asarray(self.captions["image_id"], dtype=np.int64)

    def first(self, limit: int | None) -> KarpathySplit:
        """The first ``limit`` images by id, with their captions; None keeps all."""
        kept = np.sort(self.image_ids)[:limit]
        images, captions = (
            table.filter(pc.is_in(table["image_id"], pa.array(kept))) for table in (self.images, self.captions)
        )
        return KarpathySplit(images, captions, self.cut_caption_ids)

    def texts_of(self, caption_ids: IntArray) -> pa.Array:
        """The captions' raw texts; null for ids outside the split."""
        return _look_up(self.captions, "caption_id", "text", caption_ids)

    def files_of(self, image_ids: IntArray) -> pa.Array:
        """The images' file names; null for ids outside the split."""
        return _look_up(self.images, "image_id", "file_name", image_ids)

    def images_of(self, caption_ids: IntArray) -> IntArray:
        """The image that each caption was written for; every id must be in the split."""
        return self.caption_image_ids[find_positions(caption_ids, self.caption_ids)[0]]

    @property
    def fingerprint(self) -> str:
        """Hex sha256 over all ids, file names and texts, regardless of the raw files."""
        digest = hashlib.sha256()
        for table in (self.images.drop_columns(["folder"]), self.captions):
            for column in table.columns:
                content = json.dumps(column.to_pylist(), ensure_ascii=False)
                digest.update(content.encode(errors="surrogatepass"))
        return digest.hexdigest()


def _look_up(table: pa.Table, key: str, value: str, ids: IntArray) -> pa.Array:
    places, known = find_positions(ids, np.asarray(table[key]))
    return table[value].combine_chunks().take(pa.array(places, mask=~known))


def read_karpathy(paths: Sequence[Path]) -> dict[str, KarpathySplit]:
    """Split name to its tables, from one file with all splits of COCO or Flickr30k, or one file per split.

    The id of a caption is its ``sentid``. The id of an image is its ``cocoid``, in Flickr30k its photo number.
    """
    collected: dict[str, tuple[list[tuple[int, str, str]], list[tuple[int, int, str]], list[int]]] = {}
    for path in paths:
        for place, image in _check_images(path):
            images, captions, cut = collected.setdefault(SPLIT_OF_RAW[image["split"]], ([], [], []))
            image_id = _image_id(path, place, image)
            folder = text(path, f"{place}.filepath", image.get("filepath", ""))
            images.append((image_id, image["filename"], folder))
            written = [(s["sentid"], image_id, s["raw"]) for s in image["sentences"]]
            captions += written[:CAPTIONS_PER_IMAGE]
            cut += [caption_id for caption_id, _, _ in written[CAPTIONS_PER_IMAGE:]]
    splits = {name: _tables(*collected[name]) for name in SPLITS if name in collected}
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
    return {name: folded[name] for name in SPLITS if name in folded}


def _check_images(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("images"), list) or not data["images"]:
        raise MalformedSource(path, "", "no list under the key 'images'", "the layout of dataset_coco.json")
    for number, image in enumerate(data["images"]):
        place = f"images[{number}]"
        require_keys(path, place, image, ("filename", "split", "sentences"))
        text(path, f"{place}.filename", image["filename"])
        if not isinstance(image["sentences"], list) or not image["sentences"]:
            actual = shown(image["sentences"]) if image["sentences"] else "no sentences"
            raise MalformedSource(path, f"{place}.sentences", actual, "a list of at least one caption")
        for position, sentence in enumerate(image["sentences"]):
            inner = f"{place}.sentences[{position}]"
            require_keys(path, inner, sentence, ("raw", "sentid"))
            text(path, f"{inner}.raw", sentence["raw"])
            integer(path, f"{inner}.sentid", sentence["sentid"])
        if not isinstance(image["split"], str) or image["split"] not in SPLIT_OF_RAW:
            raise MalformedSource(path, place, f"split {shown(image['split'])}", f"one of {sorted(SPLIT_OF_RAW)}")
        yield place, image


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
    files = ", ".join(map(str, paths))
    for kind in ("image_ids", "caption_ids"):
        names = np.repeat(list(splits), [getattr(split, kind).size for split in splits.values()])
        ids = np.concatenate([getattr(split, kind) for split in splits.values()])
        twice = first_duplicate(ids)
        if twice is not None:
            where = sorted(set(names[ids == ids[twice]].tolist()))
            actual = f"{kind[:-4]} {ids[twice]} twice, in split {' and '.join(where)}"
            raise MalformedSource(files, "", actual, f"every {kind[:-4]} once")
