"""How many queries, gallery items and judgments every task has on the real data."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cxc_eccv import registry
from cxc_eccv.errors import InvalidOption, SourceMissing
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.sources.catalog import OFFICIAL
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import IntArray, Judgments, RatedPairs

__all__ = ["Sizes", "computed_sizes", "recorded_sizes", "task_sizes"]

PATH = Path(__file__).with_name("task_sizes.json")
ZETAS = (0, 1, 2)

Row = dict[str, Any]
Sizes = dict[str, list[Row]]


def task_sizes() -> Sizes:
    """Task to one row per split and part; computed where ``CXC_ECCV_DATA`` names the real data, else as recorded."""
    recorded = recorded_sizes()
    return computed_sizes(Library(offline=True), recorded) if os.environ.get("CXC_ECCV_DATA") else recorded


def recorded_sizes() -> Sizes:
    """What was computed last; empty where nothing was."""
    return dict(json.loads(PATH.read_text(encoding="utf-8"))) if PATH.is_file() else {}


def computed_sizes(library: Library, recorded: Sizes) -> Sizes:
    """The sizes on the data at hand; where a raw file is not, the recorded ones."""
    if library.edition != OFFICIAL:
        raise InvalidOption(f"pages describe the official data, and CXC_ECCV_DATA holds {library.edition!r}")
    # The others are of a user's own files.
    official = {name: task for name, task in registry.tasks().items() if not task.of_label_files}
    return {name: list(_rows(task, library, recorded.get(name, []))) for name, task in official.items()}


def _rows(task: Task, library: Library, recorded: list[Row]) -> Iterator[Row]:
    for split, part in itertools.product(task.splits, task.parts):
        try:
            judged = task.read(part.offers[0], library.split(split, task.collection), part.name)
        except SourceMissing:
            yield from (row for row in recorded if (row["split"], row["part"]) == (split, part.name))
        else:
            yield {"split": split, "part": part.name, **_size(judged)}


def _size(judged: Judgments | CategoryMatches | RatedPairs) -> Row:
    if isinstance(judged, RatedPairs):
        return {"queries": int(np.unique(judged.query_ids).size), "pairs": int(judged.ratings.size)}
    size: Row = {"queries": int(judged.query_ids.size), "gallery": int(judged.gallery_ids.size)}
    if isinstance(judged, CategoryMatches):
        return size | {"R": "; ".join(f"{_span(_matches(judged, zeta))} at zeta {zeta}" for zeta in ZETAS)}
    if judged.gains is not None:
        return size | {"labelled": int(judged.gains.size), "positives": int((judged.gains > 0).sum())}
    if judged.gallery_folds is not None:
        size["gallery"] = int(np.bincount(judged.gallery_folds).max())
    size |= {"positives": int(judged.n_positives.sum()), "R": _span(judged.n_positives)}
    return size | ({"unreachable": int(judged.unreachable.sum())} if judged.unreachable.any() else {})


def _matches(judged: CategoryMatches, zeta: int) -> IntArray:
    """(Q,) matches of every query, counted by class."""
    items = np.bincount(judged.gallery_classes, minlength=len(judged.distances))
    return np.asarray(((judged.distances <= zeta) @ items)[judged.query_classes])


def _span(counts: IntArray) -> str:
    low = int(counts.min())
    high = int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
