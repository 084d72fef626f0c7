"""Captions grouped by the image they describe: what baselines draw their training pairs from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit

__all__ = ["CaptionGroup", "caption_groups", "part_images"]

SPLITS = {
    "train": "train",
    "restval": "restval",
    "val": "validation",
    "dev": "validation",
    "validation": "validation",
    "test": "test",
}
COLLECTIONS = {
    "coco": ("train", "restval", "val", "validation", "test"),
    "flickr30k": ("train", "val", "validation", "test"),
    "flickr8k": ("all", "train", "dev", "val", "validation", "test"),
}
"""Collection to the splits that may be named after it."""


@dataclass(frozen=True, slots=True)
class CaptionGroup:
    """The captions of one image.

    Attributes:
        collection: ``coco``, or ``flickr`` for Flickr8k and Flickr30k, which share photos.
        image_id: COCO id or Flickr photo number.
        caption_ids: ids within the collection they were read from, one per text.
        texts: raw captions, as their authors wrote them.
    """

    collection: str
    image_id: int
    caption_ids: tuple[int, ...]
    texts: tuple[str, ...]


def caption_groups(library: Library, names: Sequence[str]) -> list[CaptionGroup]:
    """Groups of one or more parts of the data, each image once.

    A photo that Flickr8k and Flickr30k both hold becomes one group, with every text once.

    Args:
        library: the raw sources.
        names: ``coco/train``, ``coco/restval``, ``coco/val``, ``coco/test``, ``flickr30k/val`` and its like;
            ``flickr8k/all`` (with the 92 images that are in no split), ``flickr8k/train``, ``flickr8k/dev`` or
            ``flickr8k/test``.

    Returns:
        Groups in the order of ``names`` and of the raw files.

    Raises:
        UnknownName: no such collection or split.
        InvalidOption: no name, or a part named twice.
        DataError: a raw file is missing or malformed.

    Example:
        >>> groups = caption_groups(Library("sample"), ["coco/val"])
        >>> len(groups), len(groups[0].texts)
        (60, 5)
    """
    parts = [_parsed(name) for name in names]
    if not parts or len(set(parts)) < len(parts):
        raise InvalidOption(f"training data {list(names)}: name at least one part, each once, for example coco/val")
    groups: dict[tuple[str, int], CaptionGroup] = {}
    for collection, split in parts:
        whole = (collection, split) == ("flickr8k", "all")
        captions = library.flickr8k() if whole else _content(library, collection, split).captions
        for group in _grouped("coco" if collection == "coco" else "flickr", captions):
            key = group.collection, group.image_id
            groups[key] = _joined(groups[key], group) if key in groups else group
    return list(groups.values())


def part_images(library: Library, names: Sequence[str]) -> dict[tuple[str, int], str]:
    """File names of the images of one or more parts.

    Args:
        library: the raw sources.
        names: as of :func:`caption_groups`.

    Returns:
        Collection (``coco`` or ``flickr``) and image id to file name, each image once.

    Raises:
        InvalidOption: ``flickr8k/all``, whose captions do not name all files.

    Example:
        >>> names = part_images(Library("sample"), ["coco/val"])
        >>> len(names), next(iter(names))[0]
        (60, 'coco')
    """
    found: dict[tuple[str, int], str] = {}
    for collection, split in map(_parsed, names):
        if (collection, split) == ("flickr8k", "all"):
            raise InvalidOption(
                "flickr8k/all is of captions alone, without image files; name flickr8k/train, flickr8k/dev or "
                "flickr8k/test"
            )
        table = _content(library, collection, split).images
        kind = "coco" if collection == "coco" else "flickr"
        for number, file in zip(table["image_id"].to_pylist(), table["file_name"].to_pylist(), strict=True):
            found.setdefault((kind, number), file)
    return found


def _parsed(name: str) -> tuple[str, str]:
    collection, _, split = name.partition("/")
    if collection not in COLLECTIONS:
        raise UnknownName("collection of captions", collection, COLLECTIONS)
    if split not in COLLECTIONS[collection]:
        raise UnknownName(f"part of {collection}", name, [f"{collection}/{part}" for part in COLLECTIONS[collection]])
    return collection, SPLITS.get(split, split)


def _content(library: Library, collection: str, split: str) -> KarpathySplit:
    of = {"coco": library.karpathy, "flickr30k": library.flickr30k, "flickr8k": library.flickr8k_split}
    return of[collection](split)


def _grouped(collection: str, captions: pa.Table) -> Iterable[CaptionGroup]:
    columns = (captions[name].to_pylist() for name in ("image_id", "caption_id", "text"))
    found: dict[int, list[tuple[int, str]]] = {}
    for image_id, caption_id, text in zip(*columns, strict=True):
        found.setdefault(image_id, []).append((caption_id, text))
    for image_id, rows in found.items():
        ids, texts = zip(*rows, strict=True)
        yield CaptionGroup(collection, image_id, ids, texts)


def _joined(first: CaptionGroup, second: CaptionGroup) -> CaptionGroup:
    # Flickr30k took over captions of Flickr8k, some with other blanks before the full stop.
    seen = {_plain(text) for text in first.texts}
    rows = zip(second.caption_ids, second.texts, strict=True)
    new = [(number, text) for number, text in rows if _plain(text) not in seen]
    ids, texts = zip(*new, strict=True) if new else ((), ())
    return CaptionGroup(first.collection, first.image_id, first.caption_ids + ids, first.texts + texts)


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())
