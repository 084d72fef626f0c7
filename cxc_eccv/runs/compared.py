"""Captions of a run that are compared with hard negatives: the arrays of its file that hold the vectors of both."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.runs.run import Run
from cxc_eccv.types import Comparisons

__all__ = ["compared_captions"]

ENDS = ("image_ids", "caption_embeddings", "negative_embeddings")


def compared_captions(
    run: Run, benchmark: str, part: str, parts: Iterable[str], wanted: Comparisons
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """(P, D) vectors of the captions of one part, and of their negatives, in the order ``wanted``; None without any."""
    if not isinstance(run, EmbeddingsRun):
        return None
    where, further = run.path or "run", run.further
    known = [f"{benchmark}_{own}_{end}" for own in parts for end in ENDS]
    for name in further:
        if name.startswith(f"{benchmark}_") and name not in known:
            raise UnknownName(f"array of {where}", name, known)
    names = [f"{benchmark}_{part}_{end}" for end in ENDS]
    present = [name for name in names if name in further]
    if not present:
        return None
    if present != names:
        lacking = " and ".join(name for name in names if name not in further)
        raise MalformedRun(f"{where}: has {' and '.join(present)} but not {lacking}; save all three, row by row")
    ids, captions, negatives = (further[name] for name in names)
    if not ids.size == len(captions) == len(negatives) or captions.shape != negatives.shape:
        shapes = ", ".join(f"{name} {further[name].shape}" for name in names)
        raise MalformedRun(f"{where}: {shapes}: need as many rows of each, and vectors of one space")
    apart = _find_first_difference(ids, wanted.image_ids)
    if apart is not None:
        found = f"row {apart} is image {ids[apart]}" if apart < ids.size else f"there is no row {apart}"
        due = "no item belongs there"
        if apart < wanted.item_ids.size:
            due = f"item {wanted.item_ids[apart]} of image {wanted.image_ids[apart]} belongs there"
        raise MalformedRun(
            f"{where}, {names[0]}: {found}, {due}; the array has {ids.size} rows, {part} has {wanted.item_ids.size} "
            "items. Save a row for every item, in the order of the official file."
        )
    return captions, negatives


def _find_first_difference(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> int | None:
    if np.array_equal(ids, wanted):
        return None
    shared = min(ids.size, wanted.size)
    return int(np.append(ids[:shared] != wanted[:shared], True).argmax())
