"""What a model's config says about its training data, and the warnings that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.sources.catalog import SPLIT_OF_RAW
from cxc_eccv.sources.collections.collection import Collection, collections
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup
from cxc_eccv.types import IntArray

SPLIT_OF_PART = {raw: split for raw, split in SPLIT_OF_RAW.items() if raw != "restval"}
"""Name of a part to the library's name of the split."""


class SourceRecord(TypedDict):
    """What a model's config says about the pairs of one part that it was trained on."""

    pairs: int
    positives: int
    kinds: dict[str, int]
    rule: str
    licence: str
    left_out: dict[str, int]


class TrainingRecord(TypedDict, total=False):
    """What a model's config says about its training data, as JSON holds it.

    ``holds``: evaluation split to the number of pairs with an image, a caption or words of it; ``shares_words``: split
    to the number of pairs of other images with the words of one of its captions; ``protected``: splits that are kept
    out; ``not_at_hand``: evaluation splits that could not be checked; ``before``: the record of the starting model.
    """

    parts: list[str]
    pairs: int
    positives: int
    sources: dict[str, SourceRecord]
    holds: dict[str, int]
    shares_words: dict[str, int]
    trained_on_test: bool
    trained_on_val: bool
    protected: list[str]
    not_at_hand: list[str]
    threshold: float
    edition: str
    files: dict[str, str]
    dev: str | None
    left_out_by_kind: int
    trained: int
    held_out: int
    beside_held_out: int
    before: TrainingRecord | None


HOLDS = "{:,} pairs hold images, captions or words of {}"


def warn_of_training_data(training_data: TrainingRecord | None, holds: str = HOLDS) -> tuple[str, ...]:
    """The warnings of every report on a model that was trained on evaluation splits, the test splits first."""
    if training_data is None:
        return ("The classifier's training data is not recorded: it may have seen val and test data.",)
    cautions = []
    for part in ("test", "val"):
        counts = [holds.format(n, name) for name, n in training_data["holds"].items() if name.endswith(f"/{part}")]
        cautions += [f"Trained on {part} data: {' and '.join(counts)}."] if counts else []
    if "before" in training_data:
        cautions += [
            f"The model it started from: {caution[0].lower()}{caution[1:]}"
            for caution in warn_of_training_data(training_data["before"], holds)
        ]
    return tuple(cautions)


def record_images(library: Library, groups: Sequence[CaptionGroup], before: TrainingRecord | None) -> TrainingRecord:
    """``holds``: split to the number of its images in the training data; ``before``: record of the starting model."""
    image_keys = [f"{group.photographs}/{group.image_id}" for group in groups]
    record: TrainingRecord = {"holds": count_images(library, image_keys)}
    return record if before is None else {**record, "before": before}


def list_splits_seen(record: TrainingRecord) -> set[str]:
    """The splits with images in the training data of a model and of its starting models.

    Example:
        >>> sorted(list_splits_seen({"holds": {"coco/val": 60}, "before": {"holds": {"coco/test": 60}}}))
        ['coco/test', 'coco/val']
    """
    before = record.get("before")
    return {*record["holds"]} | (set() if before is None else list_splits_seen(before))


def make_keys(collection: str, ids: IntArray) -> list[str]:
    """Keys such as ``coco/391895``."""
    return [f"{collection}/{number}" for number in ids.tolist()]


def captioned_collections() -> list[Collection]:
    """The collections with captions of their own."""
    return [collection for collection in collections().values() if collection.descriptions is None]


def has_split(library: Library, split: str, collection: Collection) -> bool:
    """Whether a collection is available and its raw files have a split."""
    return library.has_collection(collection) and split in library.read_splits(collection)


def count_images(library: Library, image_keys: Sequence[str]) -> dict[str, int]:
    """Available evaluation split to the number of these images in it, if any."""
    known = pa.array(image_keys, pa.string())
    counts: dict[str, int] = {}
    photographs = {key.partition("/")[0] for key in image_keys}
    for part, collection in product(("test", "val"), captioned_collections()):
        if collection.photographs in photographs and has_split(library, SPLIT_OF_PART[part], collection):
            image_ids = library.split(SPLIT_OF_PART[part], collection).image_ids
            inside = pc.sum(pc.is_in(known, value_set=pa.array(make_keys(collection.photographs, image_ids)))).as_py()
            counts |= {f"{collection.name}/{part}": inside} if inside else {}
    return counts
