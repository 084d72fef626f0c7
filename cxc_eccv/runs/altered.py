"""Altered captions of a run: the arrays of its file that hold them, and the run with them among its captions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cxc_eccv.errors import CxcEccvError, MalformedRun, MissingIds, UnknownIds
from cxc_eccv.runs.embeddings import EmbeddingsRun, side_of_arrays
from cxc_eccv.runs.run import Run
from cxc_eccv.types import Embeddings, IntArray
from cxc_eccv.types.altered import altered_ids
from cxc_eccv.types.ids import positions_of

__all__ = ["add_altered", "altered_captions", "find_altered_faults", "why_no_altered"]

NAMED = 3


def altered_captions(run: Run, kind: str) -> Embeddings | None:
    """Vectors of one kind of altered captions, by the ids of the captions they were made from; None without any."""
    if not isinstance(run, EmbeddingsRun):
        return None
    where, (ids, vectors) = run.path or "run", _names(kind)
    found = side_of_arrays(where, run.further, ids, vectors)
    own = run.images or run.captions
    if found is not None and own is not None and found.vectors.shape[1] != own.vectors.shape[1]:
        raise MalformedRun(
            f"{where}: {vectors} have {found.vectors.shape[1]} dimensions, the other vectors {own.vectors.shape[1]}. "
            "All must come from the shared space, after the model's projection layers."
        )
    return found


def why_no_altered(run: Run, kind: str, called: str = "<kind>") -> str | None:
    """Why a run cannot be ranked among altered captions, or None where it can; so is the kind ``called`` there."""
    if not isinstance(run, EmbeddingsRun):
        return f"altered captions are vectors of an embeddings file, and this run has {run.kind}"
    if altered_captions(run, kind) is None:
        return f"the run has no altered captions ({' and '.join(_names(called))} in its file)"
    return None


def find_altered_faults(run: Run, kind: str, needed: IntArray, known: IntArray) -> list[CxcEccvError]:
    """An error where a run lacks altered captions, and one where it has some of captions unknown to the data."""
    found = altered_captions(run, kind)
    own, name = np.empty(0, np.int64) if found is None else found.ids, f"{run.path or 'run'}, {_names(kind)[0]}"
    missing, unknown = needed[~positions_of(needed, own)[1]], own[~positions_of(own, known)[1]]
    errors: list[CxcEccvError] = []
    if missing.size:
        errors.append(
            MissingIds(
                f"{name}: lacks {missing.size} of {needed.size} captions, the first: {_first(missing)}. Give the "
                "vector of every altered caption, under the id of the caption that it was made from."
            )
        )
    if unknown.size:
        errors.append(
            UnknownIds(
                f"{name}: {unknown.size} of {own.size} captions are unknown to the data, the first: {_first(unknown)}. "
                "Use the COCO ids of the captions that the altered ones were made from."
            )
        )
    return errors


def add_altered(run: Run, kinds: Iterable[str], similarity: str | None = None) -> Run:
    """The run with altered captions of these kinds among its captions, under ids of their own; itself without any."""
    added = [(kind, own) for kind in kinds if (own := altered_captions(run, kind)) is not None]
    if not added or not isinstance(run, EmbeddingsRun) or run.captions is None:
        return run
    for kind, own in added:
        zero = own.ids[~own.vectors.any(axis=1)]
        if zero.size and similarity == "cosine":
            raise MalformedRun(
                f"{run.path or 'run'}, {_names(kind)[1]}: {zero.size} of {own.ids.size} vectors are zero, which has no "
                f"direction and so no cosine, the first of caption {zero[0]}. Check the model's output on it, or "
                "compare by dot product (similarity='dot', --similarity dot)."
            )
    ids = [run.captions.ids, *(altered_ids(kind, own.ids) for kind, own in added)]
    vectors = [run.captions.vectors, *(own.vectors for _, own in added)]
    return replace(run, captions=Embeddings(np.concatenate(ids), np.concatenate(vectors)))


def _names(kind: str) -> tuple[str, str]:
    return f"rococo_{kind}_ids", f"rococo_{kind}_embeddings"


def _first(ids: IntArray) -> str:
    return ", ".join(map(str, ids[:NAMED]))
