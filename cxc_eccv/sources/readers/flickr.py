"""Flickr8k and Flickr30k: captions by image, and the splits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.readers.karpathy import CAPTION_SCHEMA, IMAGE_SCHEMA, KarpathySplit, read_karpathy
from cxc_eccv.sources.reading import first_duplicate, read_lines, shown
from cxc_eccv.types import IntArray

__all__ = ["FLICKR8K_NAME", "read_flickr8k", "read_flickr30k", "split_flickr8k"]

FLICKR8K_NAME = re.compile(r"(?P<photo>\d{1,15})_[0-9a-f]+\.jpg")
"""File name of an image; its id is the photo number."""

# One image is written ``.jpg.1`` on some of its lines; the photo number is the same.
LINE = re.compile(r"(?P<photo>\d{1,15})_[0-9a-f]+\.jpg(?:\.1)?#(?P<number>\d)\t(?P<text>.*\S.*)")


def read_flickr8k(path: Path) -> pa.Table:
    r"""Read the token file.

    An image's id is its Flickr photo number, as in Flickr30k; a caption's is ten times that number plus its position.

    Args:
        path: lines of ``<photo>_<secret>.jpg#<position>``, a tab, and the text as its author wrote it.

    Returns:
        ``caption_id``, ``image_id`` int64 and ``text``, in file order.

    Raises:
        MalformedSource: a line of another form, or a caption given twice.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "Flickr8k.token.txt"
        ...     _ = file.write_text("1000268201_693b08cb0e.jpg#0\tA child .\n1000268201_693b08cb0e.jpg#1\tA girl .\n")
        ...     read_flickr8k(file).to_pylist()[1]
        {'caption_id': 10002682011, 'image_id': 1000268201, 'text': 'A girl .'}
    """
    rows = [_row(path, number, line) for number, line in enumerate(read_lines(path), start=1)]
    photos, positions, texts = zip(*rows, strict=True)
    image_ids = np.array(photos, dtype=np.int64)
    caption_ids = image_ids * 10 + np.array(positions, dtype=np.int64)
    twice = first_duplicate(caption_ids)
    if twice is not None:
        raise MalformedSource(path, f"line {twice + 1}", "a caption given before", "every image#position once")
    return pa.table({"caption_id": caption_ids, "image_id": image_ids, "text": pa.array(texts)})


def split_flickr8k(captions: pa.Table, lists: Mapping[str, Path]) -> dict[str, KarpathySplit]:
    r"""The images and captions of each split, in the order of its list.

    Args:
        captions: of :func:`read_flickr8k`.
        lists: split to its file of image names, one a line.

    Raises:
        MalformedSource: a line that is no such name, an image without captions, or one that is listed before.

    Example:
        >>> import tempfile
        >>> captions = pa.table({"caption_id": [70, 80, 81], "image_id": [7, 8, 8], "text": ["A cat", "A dog", "Dog"]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "Flickr_8k.testImages.txt"
        ...     _ = file.write_text("8_693b08cb0e.jpg\n")
        ...     split_flickr8k(captions, {"test": file})["test"].caption_ids.tolist()
        [80, 81]
    """
    owners = np.asarray(captions["image_id"], dtype=np.int64)
    listed: set[int] = set()
    found = {}
    for split, path in lists.items():
        names = read_lines(path)
        ids = _listed_ids(path, names, set(owners.tolist()), listed)
        listed |= set(ids.tolist())
        order = np.argsort(ids)
        # Rows of the captions by the place of their image in the list, and within an image as they come.
        place = np.full(owners.size, -1)
        inside = np.isin(owners, ids)
        place[inside] = order[np.searchsorted(ids[order], owners[inside])]
        rows = np.flatnonzero(inside)[np.argsort(place[inside], kind="stable")]
        found[split] = KarpathySplit(
            pa.Table.from_arrays([pa.array(ids), pa.array(names), pa.array([""] * len(names))], schema=IMAGE_SCHEMA),
            captions.take(pa.array(rows)).cast(CAPTION_SCHEMA),
            np.empty(0, dtype=np.int64),
        )
    return found


def _listed_ids(path: Path, names: list[str], known: set[int], listed: set[int]) -> IntArray:
    ids, before = [], set(listed)
    for number, name in enumerate(names, start=1):
        match = FLICKR8K_NAME.fullmatch(name)
        photo = int(match["photo"]) if match else None
        if photo is None or photo not in known or photo in before:
            found = f"{name[:60]!r}, which is in a split already" if photo in before else repr(name[:60])
            raise MalformedSource(path, f"line {number}", found, "every image of Flickr8k.token.txt once, by file name")
        ids.append(photo)
        before.add(photo)
    return np.array(ids, dtype=np.int64)


def _row(path: Path, number: int, line: str) -> tuple[int, int, str]:
    match = LINE.fullmatch(line)
    if match is None:
        raise MalformedSource(path, f"line {number}", shown(line), "photo_secret.jpg#position, a tab, a text")
    return int(match["photo"]), int(match["number"]), match["text"]


def read_flickr30k(paths: Sequence[Path]) -> dict[str, KarpathySplit]:
    """Read ``dataset_flickr30k.json``, or one file per split in its layout.

    An image's id is its Flickr photo number, the stem of its file name; a caption's is its ``sentid``.

    Args:
        paths: the files; together they hold every image once.

    Returns:
        Split name (``train``, ``validation``, ``test``) to its tables.

    Raises:
        MalformedSource: as for the COCO splits.
    """
    return read_karpathy(paths)
