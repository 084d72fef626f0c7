"""How many queries, gallery items and judgments every task has on the real data."""

from __future__ import annotations

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
from cxc_eccv.tasks.task import NotApplicable, Task
from cxc_eccv.types import IntArray, Judgments, RatedPairs

__all__ = ["PATH", "task_sizes"]

PATH = Path(__file__).with_name("task_sizes.json")
ZETAS = (0, 1, 2)

Row = dict[str, Any]


def task_sizes() -> dict[str, list[Row]]:
    """Task to one row per split and part; computed where ``CXC_ECCV_DATA`` names the real data, else as recorded.

    Raises:
        InvalidOption: ``CXC_ECCV_DATA`` holds another edition.
        SourceMissing: it is not set, and nothing is recorded.
    """
    if os.environ.get("CXC_ECCV_DATA"):
        return _computed(Library(offline=True))
    if not PATH.is_file():
        raise SourceMissing(f"{PATH} is absent. Set CXC_ECCV_DATA to compute it.")
    recorded: dict[str, list[Row]] = json.loads(PATH.read_text(encoding="utf-8"))
    return recorded


def _computed(library: Library) -> dict[str, list[Row]]:
    if library.edition != OFFICIAL:
        raise InvalidOption(f"pages describe the official data, and CXC_ECCV_DATA holds {library.edition!r}")
    return {name: list(_rows(task, library)) for name, task in registry.tasks().items()}


def _rows(task: Task, library: Library) -> Iterator[Row]:
    for split in task.splits:
        for part in task.parts:
            try:
                judged = task.judged("rated_pairs" if part in task.rated else task.serves, library, split, part)
            except (NotApplicable, SourceMissing):
                continue
            yield {"split": split, "part": part, **_size(judged)}


def _size(judged: Judgments | CategoryMatches | RatedPairs) -> Row:
    if isinstance(judged, RatedPairs):
        return {"queries": int(np.unique(judged.query_ids).size), "pairs": int(judged.ratings.size)}
    size: Row = {"queries": int(judged.query_ids.size), "gallery": int(judged.gallery_ids.size)}
    if isinstance(judged, CategoryMatches):
        sizes = [judged.judgments(zeta).n_positives for zeta in ZETAS]
        return size | {"R": "; ".join(f"{_span(one)} at zeta {zeta}" for zeta, one in zip(ZETAS, sizes, strict=True))}
    if judged.gains is not None:
        return size | {"labelled": int(judged.gains.size), "positives": int((judged.gains > 0).sum())}
    if judged.gallery_folds is not None:
        size["gallery"] = int(np.bincount(judged.gallery_folds).max())
    size |= {"positives": int(judged.n_positives.sum()), "R": _span(judged.n_positives)}
    return size | ({"unreachable": int(judged.unreachable.sum())} if judged.unreachable.any() else {})


def _span(counts: IntArray) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
