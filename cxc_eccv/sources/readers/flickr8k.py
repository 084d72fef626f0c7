"""Flickr8k: its captions and splits, and human judgments of its pairs: votes of a crowd, and ratings of experts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.readers.karpathy import CAPTION_SCHEMA, IMAGE_SCHEMA, SplitTables
from cxc_eccv.sources.reading import first_duplicate, first_repeated_pair, read_lines, shown

IMAGE_NAME = re.compile(r"(?P<photo>\d{1,15})_[0-9a-f]+\.jpg")

# One image has the suffix ``.jpg.1`` on some lines; the photo number is the same.
CAPTION_LINE = re.compile(r"(?P<photo>\d{1,15})_[0-9a-f]+\.jpg(?:\.1)?#(?P<number>\d)\t(?P<text>.*\S.*)")


def read_flickr8k(path: Path) -> pa.Table:
    """``caption_id``, ``image_id`` int64 and ``text`` of Flickr8k's token file, in its order.

    The id of an image is its Flickr photo number, that of a caption ten times this number plus its position.
    """
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        match = CAPTION_LINE.fullmatch(line)
        if match is None:
            raise MalformedSource(path, f"line {number}", shown(line), "photo_secret.jpg#position, a tab, a text")
        rows.append((int(match["photo"]), int(match["number"]), match["text"]))
    photos, positions, texts = zip(*rows, strict=True)
    image_ids = np.array(photos, dtype=np.int64)
    caption_ids = image_ids * 10 + np.array(positions, dtype=np.int64)
    twice = first_duplicate(caption_ids)
    if twice is not None:
        raise MalformedSource(path, f"line {twice + 1}", "a repeated caption", "every image#position once")
    return pa.table({"caption_id": caption_ids, "image_id": image_ids, "text": pa.array(texts)})


def split_flickr8k(paths: Sequence[Path], *wanted: str) -> dict[str, SplitTables]:
    """Images and captions of each split, in the order of its list.

    The first file is the token file; the others list the images of the named splits, a name on each line.
    """
    captions = read_flickr8k(paths[0])
    rows_of: dict[int, list[int]] = {}
    for row, owner in enumerate(captions["image_id"].to_pylist()):
        rows_of.setdefault(owner, []).append(row)
    splits = {}
    listed = set[int]()
    for split, path in zip(wanted, paths[1:], strict=True):
        names = read_lines(path)
        ids = _list_images(path, names, rows_of, listed)
        rows = list(chain.from_iterable(rows_of[image_id] for image_id in ids))
        splits[split] = SplitTables(
            pa.Table.from_arrays([pa.array(ids), pa.array(names), pa.array([""] * len(names))], schema=IMAGE_SCHEMA),
            captions.take(pa.array(rows)).cast(CAPTION_SCHEMA),
            np.empty(0, dtype=np.int64),
        )
    return splits


def _list_images(path: Path, names: list[str], known: Collection[int], listed: set[int]) -> list[int]:
    """Photo numbers of a list; they are added to ``listed``."""
    ids = []
    for number, name in enumerate(names, start=1):
        match = IMAGE_NAME.fullmatch(name)
        photo = int(match["photo"]) if match else None
        if photo is None or photo not in known or photo in listed:
            actual = f"{name[:60]!r}, which is already in a split" if photo in listed else repr(name[:60])
            expected = "every image of Flickr8k.token.txt once, by file name"
            raise MalformedSource(path, f"line {number}", actual, expected)
        ids.append(photo)
        listed.add(photo)
    return ids


PAIR_PATTERN = r"(?P<image>\d{1,15})_[0-9a-f]+\.jpg\t(?P<photo>\d{1,15})_[0-9a-f]+\.jpg#(?P<number>\d)\t"
CROWD_LINE = re.compile(PAIR_PATTERN + r"(?P<share>[01]|0\.\d+)\t(?P<yes>\d{1,3})\t(?P<no>\d{1,3})")
EXPERT_LINE = re.compile(PAIR_PATTERN + r"(?P<first>[1-4])\t(?P<second>[1-4])\t(?P<third>[1-4])")
SHARE_ROUNDING = 1e-3


def read_flickr8k_crowd(path: Path) -> pa.Table:
    """``image_id``, ``caption_id``, ``yes`` and ``no`` (numbers of votes) of every pair, in the order of the file."""
    rows = []
    for place, match in _read_pairs(path, CROWD_LINE, "image, caption, share of yes, votes for yes, votes for no"):
        yes = int(match["yes"])
        no = int(match["no"])
        if not yes + no or abs(yes / (yes + no) - float(match["share"])) > SHARE_ROUNDING:
            raise MalformedSource(path, place, shown(match[0]), "at least one vote, and their share of yes")
        rows.append((*_ids(match), yes, no))
    return _table(path, rows, ("yes", "no"))


def read_flickr8k_experts(path: Path) -> pa.Table:
    """``image_id``, ``caption_id`` and three ratings, 1 to 4, of every pair, in the order of the file."""
    rows = []
    for _, match in _read_pairs(path, EXPERT_LINE, "image, caption, three ratings from 1 to 4"):
        rows.append((*_ids(match), int(match["first"]), int(match["second"]), int(match["third"])))
    return _table(path, rows, ("rating1", "rating2", "rating3"))


def _read_pairs(path: Path, line: re.Pattern[str], expected: str) -> Iterator[tuple[str, re.Match[str]]]:
    for number, written in enumerate(read_lines(path), start=1):
        match = line.fullmatch(written)
        if match is None:
            raise MalformedSource(path, f"line {number}", shown(written), f"{expected}, tab separated")
        yield f"line {number}", match


def _ids(match: re.Match[str]) -> tuple[int, int]:
    return int(match["image"]), int(match["photo"]) * 10 + int(match["number"])


def _table(path: Path, rows: Sequence[tuple[int, ...]], names: tuple[str, ...]) -> pa.Table:
    table = pa.Table.from_arrays(
        [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], names=["image_id", "caption_id", *names]
    )
    twice = first_repeated_pair(*(np.asarray(table[name]) for name in ("image_id", "caption_id")))
    if twice is not None:
        raise MalformedSource(path, f"line {twice + 1}", "a pair given before", "every pair of image and caption once")
    return table
