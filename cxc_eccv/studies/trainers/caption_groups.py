"""Captions grouped by the image they describe, for the training and selection of baselines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.ranking import ranked
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.collections.collection import find_collection
from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray, Judgments

ALL = "all"
"""Part with the captions in and outside the splits of a collection that has some outside."""


@dataclass(frozen=True, slots=True)
class CaptionGroup:
    """The captions of one image, which its number in a set of photographs identifies."""

    photographs: str
    image_id: int
    caption_ids: tuple[int, ...]
    texts: tuple[str, ...]

    @property
    def image_key(self) -> tuple[str, int]:
        """What identifies the image."""
        return self.photographs, self.image_id


def caption_groups(library: Library, names: Sequence[str]) -> list[CaptionGroup]:
    """Groups of captions of parts such as ``coco/val``, each image once, in the order of the raw files."""
    parts = parts_of(names)
    if not parts or len(set(parts)) < len(parts):
        raise InvalidOption(f"training data {list(names)}: give at least one part such as coco/val, each once")
    groups: dict[tuple[str, int], CaptionGroup] = {}
    for name, split in parts:
        collection = find_collection(name)
        whole = collection.all_captions if split == ALL else None
        captions = library.split(split, collection).captions if whole is None else library.read(*whole)
        for group in _group(collection.photographs, captions):
            key = group.image_key
            groups[key] = _join(groups[key], group) if key in groups else group
    return list(groups.values())


def part_images(library: Library, names: Sequence[str]) -> dict[tuple[str, int], str]:
    """(photographs, image id) to file name, for parts named as for :func:`caption_groups`."""
    file_names: dict[tuple[str, int], str] = {}
    for name, split in parts_of(names):
        collection = find_collection(name)
        if split == ALL:
            others = ", ".join(f"{name}/{part}" for part in collection.splits)
            raise InvalidOption(f"{name}/{split} has captions without image files; use {others}")
        table = library.split(split, collection).images
        for number, file in zip(table["image_id"].to_pylist(), table["file_name"].to_pylist(), strict=True):
            file_names.setdefault((collection.photographs, number), file)
    return file_names


def parts_of(names: Sequence[str]) -> list[tuple[str, str]]:
    """Collection and split of parts such as ``coco/val``."""
    return [_parse(name) for name in names]


def _parse(name: str) -> tuple[str, str]:
    collection, _, split = name.partition("/")
    declared = find_collection(collection)
    parts = {**({ALL: ALL} if declared.all_captions else {}), **declared.splits}
    if split not in parts:
        raise UnknownName(f"part of {collection}", name, [f"{collection}/{part}" for part in parts])
    return collection, parts[split]


def _group(photographs: str, captions: pa.Table) -> Iterable[CaptionGroup]:
    columns = (captions[name].to_pylist() for name in ("image_id", "caption_id", "text"))
    by_image: dict[int, list[tuple[int, str]]] = {}
    for image_id, caption_id, text in zip(*columns, strict=True):
        by_image.setdefault(image_id, []).append((caption_id, text))
    for image_id, rows in by_image.items():
        ids, texts = zip(*rows, strict=True)
        yield CaptionGroup(photographs, image_id, ids, texts)


def _join(first: CaptionGroup, second: CaptionGroup) -> CaptionGroup:
    # Flickr30k has captions of Flickr8k, some with other spaces before the full stop.
    seen = {_plain(text) for text in first.texts}
    rows = zip(second.caption_ids, second.texts, strict=True)
    new = [(number, text) for number, text in rows if _plain(text) not in seen]
    ids, texts = zip(*new, strict=True) if new else ((), ())
    return CaptionGroup(first.photographs, first.image_id, first.caption_ids + ids, first.texts + texts)


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def link_judgments(owners: IntArray, direction: str) -> Judgments:
    """Judgments by the images of captions; ``owners`` has the number of each caption's image."""
    captions = np.arange(owners.size)
    images = np.arange(owners.max() + 1)
    if direction == "i2t":
        return Judgments.from_pairs(images, captions, owners, captions)
    if direction == "t2i":
        return Judgments.from_pairs(captions, images, captions, owners)
    groups = np.split(np.argsort(owners, kind="stable"), np.cumsum(np.bincount(owners))[:-1])
    pairs = [pair for group in groups for pair in permutations(group.tolist(), 2)]
    left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Judgments.from_pairs(np.unique(left), captions, left, right, without_self=True)


def held_out_recalls(
    run: EmbeddingsRun, owners: IntArray, directions: Sequence[str], depths: Sequence[int]
) -> dict[str, float]:
    """``direction/recall_at_k`` of captions and images that are numbered from 0, and are positive by origin."""
    recalls: dict[str, float] = {}
    for direction in directions:
        ranks = ranked(run).rank(link_judgments(owners, direction), direction)
        recalls |= {f"{direction}/recall_at_{k}": float(recall_at_k(ranks, k=k).mean()) for k in depths}
    return recalls
