"""The border between a run and judgments: which vectors are queries, which are gallery, and which are missing."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import MissingIds
from cxc_eccv.runs.run import Run
from cxc_eccv.runs.sides import other_side, sides_of
from cxc_eccv.types import IntArray, positions_of

__all__ = ["places_of", "sides_of"]

NAMED = 3
SWAP_SHARE = 0.9


def places_of(ids: IntArray, run: Run, side: str) -> IntArray:
    """Position among the run's ids of a ``side`` of every id.

    Raises:
        MissingIds: the run lacks the side or some of the ids; names the first ones, how many, and says so when
            images and captions look swapped.

    Example:
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> run = EmbeddingsRun(None, Embeddings([30, 10], np.eye(2)))
        >>> places_of(np.array([10]), run, "captions").tolist()
        [1]
    """
    own = run.ids(side)
    if not own.size:
        raise MissingIds(f"{run.path or 'run'}: has no {side}; this direction needs {ids.size} of them")
    places, known = positions_of(ids, own)
    if not known.all():
        missing = ids[~known]
        first = ", ".join(map(str, missing[:NAMED]))
        raise MissingIds(
            f"{run.path or 'run'}: lacks {missing.size} of {ids.size} {side} the task needs, the first: {first}. "
            + _remedy(run, side, ids, missing)
        )
    return places


def _remedy(run: Run, side: str, ids: IntArray, missing: IntArray) -> str:
    other = other_side(side)
    if missing.size > ids.size / 2 and np.isin(ids, run.ids(other)).mean() >= SWAP_SHARE:
        return f"These ids stand among the {other}: images and captions look swapped in the file."
    if missing.size == ids.size:
        return "None of them is there: is the run from another split or data set?"
    return "Encode the missing items too, or score them; a score over part of the gallery is not comparable."
