"""Images and captions of COCO and Flickr30k by split, from Karpathy's files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.catalog import RAW_SPLIT, SPLIT_OF_RAW, SPLITS
from cxc_eccv.sources.reading import first_duplicate, integer, read_json, read_json_columns, require_keys, shown, text
from cxc_eccv.types import IntArray

CAPTIONS_PER_IMAGE = 5  # papers drop the sixth and seventh captions of some images; 25,000 remain in val and test

IMAGE_SCHEMA = pa.schema([("image_id", pa.int64()), ("file_name", pa.string()), ("folder", pa.string())])
CAPTION_SCHEMA = pa.schema([("caption_id", pa.int64()), ("image_id", pa.int64()), ("text", pa.string())])

SENTENCE_TYPE = pa.struct(
    {"raw": pa.string(), "sentid": pa.int64(), "imgid": pa.int64(), "tokens": pa.list_(pa.string())}
)
IMAGE_TYPE = pa.struct(
    {
        "filename": pa.string(),
        "filepath": pa.string(),
        "cocoid": pa.int64(),
        "imgid": pa.int64(),
        "split": pa.string(),
        "sentids": pa.list_(pa.int64()),
        "sentences": pa.list_(SENTENCE_TYPE),
    }
)
FILE_SCHEMA = pa.schema({"dataset": pa.string(), "images": pa.list_(IMAGE_TYPE)})
"""All entries of Karpathy's files, those that nobody needs too, so that none is there twice."""

PHOTO_NAME = r"(?:.*/)?(?P<number>[0-9]{1,18})(?:\.[^./]+)?"


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
        images = self.images.filter(np.isin(self.images["image_id"], image_ids))
        captions = self.captions.filter(np.isin(self.captions["image_id"], image_ids))
        return SplitTables(images, captions, self.cut_caption_ids)


def read_karpathy(paths: Sequence[Path]) -> dict[str, SplitTables]:
    """Split name to its tables, from one file with all splits of COCO or Flickr30k, or one file per split.

    The id of a caption is its ``sentid``. The id of an image is its ``cocoid``, in Flickr30k its photo number.
    """
    files = [_read_file(path) for path in paths]
    images = pa.concat_tables([images for images, _ in files]).combine_chunks()
    captions = pa.concat_tables([captions for _, captions in files]).combine_chunks()
    raw_splits = set(pc.unique(images["split"]).to_pylist())
    splits = {}
    for name in SPLITS:
        if RAW_SPLIT[name] in raw_splits:
            splits[name] = _select_split(images, captions, RAW_SPLIT[name])
    _check_unique(paths, splits)
    return splits


def _select_split(images: pa.Table, captions: pa.Table, raw_split: str) -> SplitTables:
    images = images.filter(pc.equal(images["split"], raw_split))
    captions = captions.filter(pc.equal(captions["split"], raw_split))
    is_cut = pc.greater_equal(captions["position"], CAPTIONS_PER_IMAGE)
    return SplitTables(
        images.select(IMAGE_SCHEMA.names),
        captions.filter(pc.invert(is_cut)).select(CAPTION_SCHEMA.names),
        np.asarray(captions.filter(is_cut)["caption_id"]),
    )


def fold_restval(splits: Mapping[str, SplitTables]) -> dict[str, SplitTables]:
    """The splits with ``restval`` appended to ``train``, as most papers train (113,287 images on COCO)."""
    folded = {name: split for name, split in splits.items() if name != "restval"}
    parts = [splits[name] for name in ("train", "restval") if name in splits]
    if parts:
        folded["train"] = SplitTables.join(parts)
    return {name: folded[name] for name in SPLITS if name in folded}


def _read_file(path: Path) -> tuple[pa.Table, pa.Table]:
    """Images and captions of all splits of a file, with their raw split, and a caption's position at its image."""
    images = _read_columns(path)
    if images is None:
        images = pa.array(_read_records(path), IMAGE_TYPE)
    image_ids = _find_ids(images)
    splits = images.field("split")
    sentences = images.field("sentences")
    folders = images.field("filepath").fill_null("")
    image_table = pa.table([image_ids, images.field("filename"), folders, splits], names=[*IMAGE_SCHEMA.names, "split"])
    lengths = np.asarray(pc.list_value_length(sentences))
    owners = np.repeat(np.arange(lengths.size), lengths)
    positions = np.arange(owners.size) - (np.cumsum(lengths) - lengths)[owners]
    captions = sentences.flatten()
    caption_table = pa.table(
        [captions.field("sentid"), image_ids.take(owners), captions.field("raw"), splits.take(owners), positions],
        names=[*CAPTION_SCHEMA.names, "split", "position"],
    )
    return image_table, caption_table


def _read_columns(path: Path) -> pa.StructArray | None:
    """The images of a file; None if it has a fault, which :func:`_read_records` names, or entries of another kind."""
    table = read_json_columns(path, FILE_SCHEMA)
    if table is None:
        return None
    images = table["images"].combine_chunks().flatten()
    sentences = images.field("sentences")
    captions = sentences.flatten()
    image_ids = _find_ids(images)
    caption_ids = captions.field("sentid")
    needed = [image_ids, images.field("filename"), images.field("split"), sentences, caption_ids, captions.field("raw")]
    if not len(images) or any(column.null_count for column in needed):
        return None
    is_right = (
        pc.min(image_ids).as_py() >= 0
        and pc.min(pc.list_value_length(sentences)).as_py() > 0
        and pc.min(caption_ids).as_py() >= 0
        and set(pc.unique(images.field("split")).to_pylist()) <= set(SPLIT_OF_RAW)
    )
    return images if is_right else None


def _find_ids(images: pa.StructArray) -> pa.Int64Array:
    """The ids of images, null where there is none."""
    image_ids = images.field("cocoid")
    if image_ids.null_count:
        # Flickr30k has no cocoid; its file name is the Flickr photo number.
        parts = pc.extract_regex(images.field("filename"), pattern=f"^{PHOTO_NAME}$")
        image_ids = pc.coalesce(image_ids, pc.struct_field(parts, "number").cast(pa.int64()))
    return image_ids


def _read_records(path: Path) -> list[dict[str, Any]]:
    """The images of a file, with the entries that are needed, read one by one to name a fault."""
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("images"), list) or not data["images"]:
        raise MalformedSource(path, "", "no list under the key 'images'", "the layout of dataset_coco.json")
    records = []
    for number, image in enumerate(data["images"]):
        place = f"images[{number}]"
        require_keys(path, place, image, ("filename", "split", "sentences"))
        text(path, f"{place}.filename", image["filename"])
        if not isinstance(image["sentences"], list) or not image["sentences"]:
            actual = shown(image["sentences"]) if image["sentences"] else "no sentences"
            raise MalformedSource(path, f"{place}.sentences", actual, "a list of at least one caption")
        sentences = []
        for position, sentence in enumerate(image["sentences"]):
            inner = f"{place}.sentences[{position}]"
            require_keys(path, inner, sentence, ("raw", "sentid"))
            text(path, f"{inner}.raw", sentence["raw"])
            integer(path, f"{inner}.sentid", sentence["sentid"])
            sentences.append({name: sentence[name] for name in ("raw", "sentid")})
        if not isinstance(image["split"], str) or image["split"] not in SPLIT_OF_RAW:
            raise MalformedSource(path, place, f"split {shown(image['split'])}", f"one of {sorted(SPLIT_OF_RAW)}")
        if "cocoid" in image:
            integer(path, f"{place}.cocoid", image["cocoid"])
        elif re.fullmatch(PHOTO_NAME, image["filename"]) is None:
            expected = "a key 'cocoid', or a Flickr photo number as the file name"
            raise MalformedSource(path, f"{place}.filename", shown(image["filename"]), expected)
        text(path, f"{place}.filepath", image.get("filepath", ""))
        record = {name: image[name] for name in ("filename", "filepath", "cocoid", "split") if name in image}
        records.append(record | {"sentences": sentences})
    return records


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
