"""What a dual encoder has seen of the splits that models are evaluated on: recorded in its config, told in its card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.caption_groups import CaptionGroup
from cxc_eccv.studies.entailment.training_data import count_images

__all__ = ["record_seen", "splits_seen", "tell_seen"]

PHOTOGRAPHS = {"coco": "coco", "flickr": "flickr30k"}
"""Collection of a group to the one that numbers its images."""

Record = Mapping[str, Any]


def record_seen(library: Library, groups: Sequence[CaptionGroup], before: Record | None) -> dict[str, Any]:
    """``holds``: split to the number of its images among those trained on; ``before``: of what the run went on from."""
    keys = [f"{PHOTOGRAPHS[group.collection]}/{group.image_id}" for group in groups if group.collection in PHOTOGRAPHS]
    record: dict[str, Any] = {"holds": count_images(library, keys)}
    return record if before is None else {**record, "before": before}


def splits_seen(record: Record) -> set[str]:
    """The splits of which a model has seen images, in whatever run.

    Example:
        >>> sorted(splits_seen({"holds": {"coco/val": 60}, "before": {"holds": {"coco/test": 60}}}))
        ['coco/test', 'coco/val']
    """
    return {*record["holds"]} | (splits_seen(record["before"]) if "before" in record else set())


def tell_seen(record: Record) -> list[str]:
    """What a report and a card have to say of it, the test splits first.

    Example:
        >>> for line in tell_seen({"holds": {"coco/val": 60}, "before": {"holds": {"coco/test": 60}}}):
        ...     print(line)
        Trained on val data: 60 images of coco/val.
        Before, as what it went on from: trained on test data: 60 images of coco/test.
    """
    told = []
    for part in ("test", "val"):
        own = [f"{images:,} images of {name}" for name, images in record["holds"].items() if name.endswith(f"/{part}")]
        told += [f"Trained on {part} data: {' and '.join(own)}."] if own else []
    before = tell_seen(record["before"]) if "before" in record else []
    return told + [f"Before, as what it went on from: {line[0].lower()}{line[1:]}" for line in before]
