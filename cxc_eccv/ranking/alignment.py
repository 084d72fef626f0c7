"""The border between a run and judgments: which vectors are queries, which are gallery, and which are missing."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import MissingIds, UnknownName
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.types import DIRECTIONS, Embeddings, IntArray, positions_of

__all__ = ["missing_modality", "places_of", "sides_of"]

MODALITIES = {"i": "images", "t": "captions"}
NAMED = 3
SWAP_SHARE = 0.9


def sides_of(direction: str) -> tuple[str, str]:
    """Names of the query side and the gallery side of a run.

    Raises:
        UnknownName: not one of ``i2t``, ``t2i``, ``t2t``, ``i2i``.

    Example:
        >>> sides_of("i2t")
        ('images', 'captions')
    """
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    return MODALITIES[direction[0]], MODALITIES[direction[-1]]


def missing_modality(run: EmbeddingsRun, direction: str) -> str | None:
    """The side this direction needs and the run lacks (``images`` or ``captions``), or None.

    Example:
        >>> text_only = EmbeddingsRun(None, Embeddings([1], np.eye(1)))
        >>> missing_modality(text_only, "i2t"), missing_modality(text_only, "t2t")
        ('images', None)
    """
    return next((side for side in sides_of(direction) if getattr(run, side) is None), None)


def places_of(ids: IntArray, run: EmbeddingsRun, side: str) -> IntArray:
    """Row in the run's ``side`` of every id.

    Raises:
        MissingIds: the run lacks the side or some of the ids; names the first ones, how many, and says so when
            images and captions look swapped.

    Example:
        >>> run = EmbeddingsRun(None, Embeddings([30, 10], np.eye(2)))
        >>> places_of(np.array([10]), run, "captions").tolist()
        [1]
    """
    embeddings: Embeddings | None = getattr(run, side)
    if embeddings is None:
        raise MissingIds(f"{run.path or 'run'}: has no {side}; this direction needs vectors for {ids.size} {side}")
    places, known = positions_of(ids, embeddings.ids)
    if not known.all():
        missing = ids[~known]
        first = ", ".join(map(str, missing[:NAMED]))
        raise MissingIds(
            f"{run.path or 'run'}: lacks {missing.size} of {ids.size} {side} the task needs, the first: {first}. "
            + _remedy(run, side, ids, missing)
        )
    return places


def _remedy(run: EmbeddingsRun, side: str, ids: IntArray, missing: IntArray) -> str:
    other = "images" if side == "captions" else "captions"
    others: Embeddings | None = getattr(run, other)
    if others is not None and missing.size > ids.size / 2 and np.isin(ids, others.ids).mean() >= SWAP_SHARE:
        return f"These ids stand among the {other}: images and captions look swapped in the file."
    if missing.size == ids.size:
        return "None of them is there: is the run from another split or data set?"
    return "Encode the missing items too; a score over part of the gallery is not comparable."
