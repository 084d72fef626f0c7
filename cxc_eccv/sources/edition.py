"""Names of splits and editions, and the sentence that every output begins with: the data behind its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cxc_eccv.sources.catalog import OFFICIAL

SPLITS = ("train", "restval", "validation", "test")

RAW_SPLIT = {"train": "train", "restval": "restval", "validation": "val", "test": "test"}

SPLIT_OF_RAW = {raw: split for split, raw in RAW_SPLIT.items()}

SPLIT_NAMES = {"train": "train", "restval": "restval", "val": "validation", "validation": "validation", "test": "test"}

SAMPLE = "sample"
"""The embedded sample: its edition, and what a user writes for its folder (``./sample`` is another folder)."""

DRAWINGS = {"train": 60, "restval": 10, "validation": 60, "test": 60}
"""Images of each split of the embedded sample."""


def describe_data(provenance: Mapping[str, Any], collection: str = "COCO") -> str:
    """The split and the edition of the data that a provenance records; empty where it records no edition.

    Args:
        provenance: has the entries ``data`` and ``split``; ``data`` holds ``edition`` and may hold ``modified``.
        collection: name of the images and captions; empty where there are several or none.

    Example:
        >>> describe_data({"data": {"edition": "official"}, "split": "test"})
        'test split of COCO (official data)'
        >>> describe_data({"data": {"edition": "sample"}, "split": "test"})
        'test split of the embedded sample (60 drawings): not results on COCO'
    """
    data, split = provenance.get("data") or {}, provenance.get("split")
    edition, modified = data.get("edition"), data.get("modified")
    if not edition:
        return ""
    if edition == SAMPLE:
        drawings = DRAWINGS.get(split or "", sum(DRAWINGS.values()))
        name = f"{'the ' if split else ''}embedded sample ({drawings} drawings): not results on COCO"
    elif edition != OFFICIAL or modified:
        kind = "modified data" if modified else f"edition {edition!r}"
        name = f"{', '.join(filter(None, [collection, kind]))}: not the official data"
    else:
        name = f"{collection} (official data)" if collection else "official data"
    return f"{split} split of {name}" if split else name
