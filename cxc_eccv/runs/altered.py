"""Vectors of altered captions in a run, to rank among its captions or to compare with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import CxcEccvError, MalformedRun, MissingIds, UnknownIds, UnknownName
from cxc_eccv.runs.embeddings import FURTHER, EmbeddingsRun, side_of_arrays
from cxc_eccv.runs.run import Run
from cxc_eccv.types import Comparisons, Embeddings, IntArray
from cxc_eccv.types.altered import altered_ids
from cxc_eccv.types.ids import positions_of

NAMED = 3


def altered_captions(run: Run, kind: str) -> Embeddings | None:
    """Vectors of one kind of altered captions, with the ids of their original captions; None without any."""
    if not isinstance(run, EmbeddingsRun):
        return None
    where, (ids, vectors) = run.path or "run", _names(kind)
    altered, others = side_of_arrays(where, run.further, ids, vectors), run.images or run.captions
    if altered is not None and others is not None and altered.vectors.shape[1] != others.vectors.shape[1]:
        raise MalformedRun(
            f"{where}: {vectors} have {altered.vectors.shape[1]} dimensions, the other vectors "
            f"{others.vectors.shape[1]}. All must come from the shared space, after the model's projection layers."
        )
    return altered


def why_no_altered(run: Run, kind: str, called: str = "<kind>") -> str | None:
    """Why a run cannot rank altered captions, or None; the text names the kind as ``called``."""
    if not isinstance(run, EmbeddingsRun):
        return f"altered captions need vectors in an embeddings file, but this run has {run.kind}"
    if altered_captions(run, kind) is None:
        return f"the run has no altered captions ({' and '.join(_names(called))} in its file)"
    return None


def find_altered_faults(run: Run, kind: str, needed: IntArray, known: IntArray) -> list[CxcEccvError]:
    """Errors for altered captions that a run lacks, and for those whose original caption is not in the data."""
    altered, name = altered_captions(run, kind), f"{run.path or 'run'}, {_names(kind)[0]}"
    ids = np.empty(0, np.int64) if altered is None else altered.ids
    missing, unknown = needed[~positions_of(needed, ids)[1]], ids[~positions_of(ids, known)[1]]
    errors: list[CxcEccvError] = []
    if missing.size:
        errors.append(
            MissingIds(
                f"{name}: lacks {missing.size} of {needed.size} captions, the first: {_first(missing)}. Save the "
                "vector of every altered caption under the id of its original caption."
            )
        )
    if unknown.size:
        errors.append(
            UnknownIds(
                f"{name}: {unknown.size} of {ids.size} captions are unknown to the data, the first: {_first(unknown)}. "
                "Use the COCO ids of the original captions."
            )
        )
    return errors


def add_altered(run: Run, kinds: Iterable[str], similarity: str | None = None) -> Run:
    """The run with the altered captions of these kinds added to its captions under separate ids."""
    added = [(kind, altered) for kind in kinds if (altered := altered_captions(run, kind)) is not None]
    if not added or not isinstance(run, EmbeddingsRun) or run.captions is None:
        return run
    for kind, altered in added:
        zero = altered.ids[~altered.vectors.any(axis=1)]
        if zero.size and similarity == "cosine":
            raise MalformedRun(
                f"{run.path or 'run'}, {_names(kind)[1]}: {zero.size} of {altered.ids.size} vectors are zero and have "
                f"no cosine, the first of caption {zero[0]}. Check the model's output on it, or compare by dot product "
                "(similarity='dot', --similarity dot)."
            )
    ids = [run.captions.ids, *(altered_ids(kind, altered.ids) for kind, altered in added)]
    vectors = [run.captions.vectors, *(altered.vectors for _, altered in added)]
    return replace(run, captions=Embeddings(np.concatenate(ids), np.concatenate(vectors)))


def _names(kind: str) -> tuple[str, str]:
    return f"rococo_{kind}_ids", f"rococo_{kind}_embeddings"


def _first(ids: IntArray) -> str:
    return ", ".join(map(str, ids[:NAMED]))


def compared_captions(
    run: Run, benchmark: str, part: str, parts: Iterable[str], wanted: Comparisons
) -> list[NDArray[np.float32]] | None:
    """(P, D) vectors of the captions of one part, and of their negatives, in the order ``wanted``, or None."""
    if not isinstance(run, EmbeddingsRun):
        return None
    where, further = run.path or "run", run.further
    ends = ("image_ids", *(f"{caption}_embeddings" for caption in (*wanted.captions, "negative")))
    known = [f"{benchmark}_{any_part}_{end}" for any_part in parts for end in ends]
    of_others = tuple(start for start in FURTHER if start.startswith(f"{benchmark}_") and start != f"{benchmark}_")
    for name in further:
        if name.startswith(f"{benchmark}_") and not name.startswith(of_others) and name not in known:
            raise UnknownName(f"array of {where}", name, known)
    names = [f"{benchmark}_{part}_{end}" for end in ends]
    present = [name for name in names if name in further]
    if not present:
        return None
    if present != names:
        lacking = " and ".join(name for name in names if name not in further)
        raise MalformedRun(f"{where}: has {' and '.join(present)} but not {lacking}; save all of them, row by row")
    ids, *vectors = (further[name] for name in names)
    if any(len(found) != ids.size or found.shape != vectors[0].shape for found in vectors):
        shapes = ", ".join(f"{name} {further[name].shape}" for name in names)
        raise MalformedRun(f"{where}: {shapes}; need the same number of rows, and vectors of one space")
    row = _find_first_difference(ids, wanted.image_ids)
    if row is not None:
        actual = f"row {row} is image {ids[row]}" if row < ids.size else f"there is no row {row}"
        expected = "expected no further row"
        if row < wanted.item_ids.size:
            expected = f"expected item {wanted.item_ids[row]} of image {wanted.image_ids[row]}"
        raise MalformedRun(
            f"{where}, {names[0]}: {actual}, {expected}; the array has {ids.size} rows, {part} has "
            f"{wanted.item_ids.size} items. Save a row for every item, in the order of the official file."
        )
    return vectors


def _find_first_difference(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> int | None:
    if np.array_equal(ids, wanted):
        return None
    shared = min(ids.size, wanted.size)
    return int(np.append(ids[:shared] != wanted[:shared], True).argmax())
