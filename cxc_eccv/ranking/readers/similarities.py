"""The similarity that a run gives to each rated pair."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption
from cxc_eccv.ranking.kernels import pair_products
from cxc_eccv.ranking.scores import places_of, refuse_embedding_options, refuse_zero_vectors, similarity_of
from cxc_eccv.runs import EmbeddingsRun, Run, ScoresRun
from cxc_eccv.runs.run import sides_of
from cxc_eccv.types import Embeddings, FloatArray, IntArray, RatedPairs

__all__ = ["pair_similarities", "similarities_of_run"]


def similarities_of_run(run: Run, direction: str, rated: RatedPairs, *, similarity: str | None = None) -> FloatArray:
    """Similarity of every rated pair, whichever form the run has.

    Args:
        run: embeddings, or for images with captions scores, which are taken as they are.
        direction: ``t2t`` for STS, ``i2i`` for SIS, ``i2t`` for SITS (its queries are images).
        rated: P pairs.
        similarity: ``cosine`` or ``dot``; of embeddings, None for what the run is meant for, else cosine.

    Returns:
        (P,) similarities.

    Raises:
        MissingIds: the run lacks a rated item.
        InvalidOption: the run does not say how similar pairs of this direction are, or ``similarity`` is given although
            it has scores.

    Example:
        >>> run = ScoresRun(np.array([1]), np.array([7, 8]), np.array([[0.5, 0.25]]))
        >>> similarities_of_run(run, "i2t", RatedPairs(np.array([1]), np.array([8]), np.array([5.0]))).tolist()
        [0.25]
    """
    if isinstance(run, EmbeddingsRun):
        return pair_similarities(run, direction, rated, similarity=similarity)
    refuse_embedding_options(run, similarity=similarity)
    if not isinstance(run, ScoresRun) or direction != "i2t":
        raise InvalidOption(f"{run.kind} do not say how similar rated pairs of {direction} are")
    rows, columns = places_of(rated.query_ids, run, "images"), places_of(rated.item_ids, run, "captions")
    return np.asarray(run.scores[rows, columns], dtype=np.float64)


def pair_similarities(
    run: EmbeddingsRun, direction: str, rated: RatedPairs, *, similarity: str | None = None
) -> FloatArray:
    """Similarity of every rated pair, summed in float64.

    Pairs of byte-identical vectors tie, in either order; a vector has cosine 1 with its copies, exactly.

    Args:
        run: vectors of all images or captions that are rated.
        direction: ``t2t`` for STS, ``i2i`` for SIS, ``i2t`` for SITS (its queries are images).
        rated: P pairs.
        similarity: ``cosine`` or ``dot``; None for what the run is meant for, else cosine.

    Returns:
        (P,) similarities.

    Raises:
        MissingIds: the run lacks a rated item, or the modality.
        MalformedRun: a zero vector, which has no cosine.
        UnknownName: no such direction or similarity.

    Example:
        >>> run = EmbeddingsRun(None, Embeddings([1, 2, 3], [[1, 0], [3, 4], [0, 2]]))
        >>> rated = RatedPairs(np.array([1, 3]), np.array([2, 2]), np.array([5.0, 4.0]))
        >>> pair_similarities(run, "t2t", rated).round(6).tolist()
        [0.6, 0.8]
    """
    similarity = similarity_of(run, similarity)
    queries, items = _sides(run, direction, rated)
    if similarity == "cosine":
        for side, name in zip((queries, items), sides_of(direction), strict=True):
            _refuse_zero_vectors(run, side, name)
    count = len(items.vectors)
    pairs, occurrence = np.unique(queries.rows * count + items.rows, return_inverse=True)
    queries, items = queries._replace(rows=pairs // count), items._replace(rows=pairs % count)
    values = _inner_products(queries, items)
    if similarity == "cosine":
        # One root of the product, not a product of roots: identical vectors get exactly 1.
        values /= np.sqrt(_squares(queries) * _squares(items))
    return np.asarray(values[occurrence])


class _Side(NamedTuple):
    """All vectors of a modality, and the rows of those that are multiplied."""

    vectors: NDArray[np.float32]
    rows: IntArray


def _sides(run: EmbeddingsRun, direction: str, rated: RatedPairs) -> tuple[_Side, _Side]:
    """Query and item of every pair; within one modality the smaller row first, so that both orders are one pair."""
    query_side, item_side = sides_of(direction)
    if query_side != item_side:
        return _located(run, query_side, rated.query_ids), _located(run, item_side, rated.item_ids)
    vectors, rows = _located(run, query_side, np.concatenate([rated.query_ids, rated.item_ids]))
    queries, items = np.split(rows, 2)
    return _Side(vectors, np.minimum(queries, items)), _Side(vectors, np.maximum(queries, items))


def _located(run: EmbeddingsRun, side: str, ids: IntArray) -> _Side:
    distinct, occurrence = np.unique(ids, return_inverse=True)
    rows = places_of(distinct, run, side)[occurrence]
    embeddings: Embeddings = getattr(run, side)
    return _Side(embeddings.vectors, rows)


def _refuse_zero_vectors(run: EmbeddingsRun, side: _Side, name: str) -> None:
    rows = np.unique(side.rows)
    nowhere = rows[~side.vectors[rows].any(axis=1)]
    refuse_zero_vectors(run.ids(name)[nowhere], rows.size, name, run.path or "run")


def _squares(side: _Side) -> FloatArray:
    """(P,) squared lengths of the chosen vectors."""
    distinct, occurrence = np.unique(side.rows, return_inverse=True)
    once = side._replace(rows=distinct)
    return np.asarray(_inner_products(once, once)[occurrence])


def _inner_products(left: _Side, right: _Side) -> FloatArray:
    return pair_products(left.vectors, right.vectors, left.rows, right.rows)[0]
