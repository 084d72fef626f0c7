"""Images and captions of COCO and Flickr30k by split, from Karpathy's files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.catalog import SPLIT_OF_RAW, SPLITS
from cxc_eccv.sources.reading import first_duplicate, integer, read_json, require_keys, shown, text
from cxc_eccv.types import IntArray

CAPTIONS_PER_IMAGE = 5  # papers drop the sixth and seventh captions of some images; 25,000 remain in val and test

IMAGE_SCHEMA = pa.schema([("image_id", pa.int64()), ("file_name", pa.string()), ("folder", pa.string())])
CAPTION_SCHEMA = pa.schema([("caption_id", pa.int64()), ("image_id", pa.int64()), ("text", pa.string())])


@dataclass(frozen=True, slots=True, eq=False)
class SplitTables:
    """Images and captions of one split, in the order of the raw file."""

    images: pa.Table  # of IMAGE_SCHEMA; the folder is val2014, for example, and empty for Flickr
    captions: pa.Table  # of CAPTION_SCHEMA; texts as in the file
    cut_caption_ids: IntArray  # captions beyond the limit per image, which are in no table

    @classmethod
    def join(cls, parts: Sequence[SplitTables]) -> SplitTables:
        """Several splits as one."""
        return cls(
            pa.concat_tables([part.images for part in parts]).combine_chunks(),
            pa.concat_tables([part.captions for part in parts]).combine_chunks(),
            np.concatenate([part.cut_caption_ids for part in parts]),
        )

    def among(self, image_ids: IntArray) -> SplitTables:
        """The part with these images."""
        images, captions = (
            table.filter(np.isin(table["image_id"], image_ids)) for table in (self.images, self.captions)
        )
        return SplitTables(images, captions, self.cut_caption_ids)


def read_karpathy(paths: Sequence[Path]) -> dict[str, SplitTables]:
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


def fold_restval(splits: Mapping[str, SplitTables]) -> dict[str, SplitTables]:
    """The splits with ``restval`` appended to ``train``, as most papers train (113,287 images on COCO)."""
    folded = {name: split for name, split in splits.items() if name != "restval"}
    parts = [splits[name] for name in ("train", "restval") if name in splits]
    if parts:
        folded["train"] = SplitTables.join(parts)
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


def _tables(images: list[tuple[int, str, str]], captions: list[tuple[int, int, str]], cut: list[int]) -> SplitTables:
    return SplitTables(
        pa.Table.from_arrays([pa.array(column) for column in zip(*images, strict=True)], schema=IMAGE_SCHEMA),
        pa.Table.from_arrays([pa.array(column) for column in zip(*captions, strict=True)], schema=CAPTION_SCHEMA),
        np.asarray(cut, dtype=np.int64),
    )


def _check_unique(paths: Sequence[Path], splits: Mapping[str, SplitTables]) -> None:
    files = ", ".join(map(str, paths))
    for kind in ("image", "caption"):
        columns = [getattr(split, f"{kind}s")[f"{kind}_id"] for split in splits.values()]
        names = np.repeat(list(splits), [len(column) for column in columns])
        ids = np.concatenate([np.asarray(column) for column in columns])
        twice = first_duplicate(ids)
        if twice is not None:
            where = sorted(set(names[ids == ids[twice]].tolist()))
            actual = f"{kind} {ids[twice]} twice, in split {' and '.join(where)}"
            raise MalformedSource(files, "", actual, f"every {kind} once")
