"""The sample's own ``catalog.toml``: name, place, size and hash of every raw file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

__all__ = ["HEADER", "catalog_toml", "entry_names"]

VERSION = "1.0.0"
LICENCE = "Apache-2.0"

HEADER = f"""# The embedded sample: drawn scenes in the raw formats of the real sources.
# Written by tools/make_sample.py; do not edit.

edition = "sample"
version = "{VERSION}"
"""


def entry_names() -> dict[str, tuple[str, str, str]]:
    """Name of each entry to its group, its path, and what the sample's file holds."""
    names = {"karpathy_coco": ("karpathy", "coco/dataset_coco.json", "Karpathy splits, all four in one file")}
    for folder in ("train2014", "val2014"):
        path = f"coco/instances_{folder}.json"
        names[f"instances_{folder}"] = ("coco_instances", path, f"instances of {folder}")
    for kind, what in (("sts", "caption"), ("sis", "image"), ("sits", "caption-image")):
        for split in ("val", "test"):
            names[f"{kind}_{split}"] = ("cxc", f"cxc/{kind}_{split}.csv", f"ratings of {what} pairs, {split}")
    for labels in ("eccv", "cxc", "original"):
        for way in ("image_to_caption", "caption_to_image"):
            names[f"{labels}_{way}"] = ("eccv_caption", f"eccv/{labels}_{way}.json", f"{labels} positives, test")
    names["coco_test_ids"] = ("eccv_caption", "eccv/coco_test_ids.npy", "caption ids in Karpathy order, test")
    for split in ("val", "test"):
        path = f"entailment/entailment_{split}.jsonl"
        names[f"entailment_{split}"] = ("entailment", path, f"entailment labels, {split}")
    names["truth"] = ("eccv_caption", "truth.json", "all captions that are true of an image, every split")
    return names


def catalog_toml(files: Mapping[str, bytes]) -> bytes:
    """The catalog of these files."""
    return "\n".join([HEADER, *(_entry(name, *about, files) for name, about in entry_names().items())]).encode()


def _entry(name: str, group: str, path: str, title: str, files: Mapping[str, bytes]) -> str:
    return f"""[entries.{name}]
group = "{group}"
path = "{path}"
title = "Sample: {title}"
licence = "{LICENCE}"
sha256 = "{hashlib.sha256(files[path]).hexdigest()}"
size = {len(files[path])}
"""
