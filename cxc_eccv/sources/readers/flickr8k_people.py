"""Flickr8k's human judgments of image-caption pairs: votes of a crowd, and ratings of experts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import read_lines, shown

PAIR = r"(?P<image>\d{1,15})_[0-9a-f]+\.jpg\t(?P<photo>\d{1,15})_[0-9a-f]+\.jpg#(?P<number>\d)\t"
CROWD_LINE = re.compile(PAIR + r"(?P<share>[01]|0\.\d+)\t(?P<yes>\d{1,3})\t(?P<no>\d{1,3})")
EXPERT_LINE = re.compile(PAIR + r"(?P<first>[1-4])\t(?P<second>[1-4])\t(?P<third>[1-4])")
ROUNDING = 1e-3


def read_flickr8k_crowd(path: Path) -> pa.Table:
    """``image_id``, ``caption_id``, ``yes`` and ``no`` (numbers of votes) of every pair, in the order of the file."""
    rows = []
    for place, match in _read_pairs(path, CROWD_LINE, "image, caption, share of yes, votes for yes, votes for no"):
        yes, no = int(match["yes"]), int(match["no"])
        if not yes + no or abs(yes / (yes + no) - float(match["share"])) > ROUNDING:
            raise MalformedSource(path, place, shown(match[0]), "at least one vote, and their share of yes")
        rows.append((*_ids(match), yes, no))
    return _table(path, rows, ("yes", "no"))


def read_flickr8k_experts(path: Path) -> pa.Table:
    """``image_id``, ``caption_id`` and three ratings, 1 to 4, of every pair, in the order of the file."""
    rows = [
        (*_ids(match), *(int(match[name]) for name in ("first", "second", "third")))
        for _, match in _read_pairs(path, EXPERT_LINE, "image, caption, three ratings from 1 to 4")
    ]
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
    pairs = np.stack([np.asarray(table[name]) for name in ("image_id", "caption_id")], axis=1)
    first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    if first.size < len(pairs):
        row = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
        raise MalformedSource(path, f"line {row + 1}", "a pair given before", "every pair of image and caption once")
    return table
