"""The similarity that a run gives to each rated pair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption
from cxc_eccv.ranking.kernels import pair_products
from cxc_eccv.ranking.scores import places_of, refuse_embedding_options, refuse_zero_vectors, similarity_of
from cxc_eccv.runs import EmbeddingsRun, Run, ScoresRun
from cxc_eccv.types import FloatArray, IntArray, RatedPairs, sides_of

__all__ = ["pair_similarities", "similarities_of_run"]


def similarities_of_run(run: Run, direction: str, rated: RatedPairs, *, similarity: str | None = None) -> FloatArray:
    """Similarity of each of P rated pairs, whichever form the run has.

    The direction is ``t2t`` for STS, ``i2i`` for SIS, ``i2t`` for SITS (its queries are images). Scores of images with
    captions are taken as they are.

    Raises:
        MissingIds: the run lacks a rated item.
        InvalidOption: the run does not say how similar pairs of this direction are, or ``similarity`` is given although
            it has scores.
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

    Raises:
        MissingIds: the run lacks a rated item, or the modality.
        MalformedRun: a zero vector, which has no cosine.
        UnknownName: no such direction or similarity.

    Example:
        >>> from cxc_eccv.types import Embeddings
        >>> run = EmbeddingsRun(None, Embeddings([1, 2, 3], [[1, 0], [3, 4], [0, 2]]))
        >>> rated = RatedPairs(np.array([1, 3]), np.array([2, 2]), np.array([5.0, 4.0]))
        >>> pair_similarities(run, "t2t", rated).round(6).tolist()
        [0.6, 0.8]
    """
    similarity = similarity_of(run, similarity)
    query_side, item_side = sides_of(direction)
    if query_side == item_side:  # the smaller row first, so that both orders are one pair
        both = np.split(_rows_of(run, query_side, np.concatenate([rated.query_ids, rated.item_ids])), 2)
        queries, items = np.minimum(*both), np.maximum(*both)
    else:
        queries, items = _rows_of(run, query_side, rated.query_ids), _rows_of(run, item_side, rated.item_ids)
    left, right = getattr(run, query_side).vectors, getattr(run, item_side).vectors
    if similarity == "cosine":
        for side, vectors, rows in ((query_side, left, queries), (item_side, right, items)):
            distinct = np.unique(rows)
            nowhere = distinct[~vectors[distinct].any(axis=1)]
            refuse_zero_vectors(run.ids(side)[nowhere], distinct.size, side, run.path or "run")
    pairs, occurrence = np.unique(queries * len(right) + items, return_inverse=True)
    queries, items = np.divmod(pairs, len(right))
    values = pair_products(left, right, queries, items)[0]
    if similarity == "cosine":
        # One root of the product, not a product of roots: identical vectors get exactly 1.
        values /= np.sqrt(_squares(left, queries) * _squares(right, items))
    return np.asarray(values[occurrence])


def _rows_of(run: EmbeddingsRun, side: str, ids: IntArray) -> IntArray:
    distinct, occurrence = np.unique(ids, return_inverse=True)
    return places_of(distinct, run, side)[occurrence]


def _squares(vectors: NDArray[np.float32], rows: IntArray) -> FloatArray:
    """(P,) squared lengths of the chosen vectors."""
    distinct, occurrence = np.unique(rows, return_inverse=True)
    return np.asarray(pair_products(vectors, vectors, distinct, distinct)[0][occurrence])
