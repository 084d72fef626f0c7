"""Quantized vectors: int8 and binary as sentence-transformers makes them, and rescoring with float queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import UnknownName
from cxc_eccv.ranking.fusion import DEPTH, best_items
from cxc_eccv.ranking.scores import refuse_zero_vectors, similarity_of
from cxc_eccv.runs import EmbeddingsRun, RankingsRun
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import DIRECTIONS, SIDES, Embeddings, FloatArray, IntArray, positions_of, sides_of

PRECISIONS = ("int8", "binary")
LEVELS = 255
VALUES_AT_ONCE = 2**24


class Quantized(NamedTuple):
    """Vectors of one precision.

    Attributes:
        search: what a search compares, by dot product: whole numbers from -128 to 127, or -1 and 1, whose dot product
            ranks as the Hamming distance does.
        queries: the float vectors, of unit length if the run is compared by cosine.
        items: what rescoring compares the float queries with: restored int8 values, or bits of 0 and 1.
        size: bytes of the quantized vectors.
    """

    search: EmbeddingsRun
    queries: EmbeddingsRun
    items: EmbeddingsRun
    size: int


def quantize(run: EmbeddingsRun, precision: str) -> Quantized:
    r"""Quantize the vectors of a run, images and captions on one scale.

    int8 is :math:`\lfloor 255 (x - min) / (max - min) \rfloor - 128` with the least and largest value of each dimension
    over all vectors of the run; binary is :math:`x > 0`, eight dimensions to a byte. Vectors are first scaled to unit
    length if the run is compared by cosine.

    Args:
        run: embeddings; further sentences than the captions are left out.
        precision: ``int8`` or ``binary``.

    Raises:
        UnknownName: the precision is unknown.
        MalformedRun: a vector that is compared by cosine is zero.

    References:
        ``quantize_embeddings`` of sentence-transformers, with both sides as ``calibration_embeddings``.

    Example:
        >>> run = EmbeddingsRun(None, Embeddings([7, 8], [[0.6, -0.8], [-1.0, 0.0]]))
        >>> quantize(run, "int8").search.captions.vectors.tolist()
        [[127.0, -128.0], [-128.0, 127.0]]
        >>> quantize(run, "binary").search.captions.vectors.tolist()
        [[1.0, -1.0], [-1.0, -1.0]]
    """
    if precision not in PRECISIONS:
        raise UnknownName("precision", precision, PRECISIONS)
    sides: dict[str, Embeddings] = {side: getattr(run, side) for side in SIDES if getattr(run, side) is not None}
    vectors = {side: _scale(run, side, values) for side, values in sides.items()}
    if precision == "int8":
        every = np.concatenate([*vectors.values()])
        start = every.min(axis=0)
        step = (every.max(axis=0) - start) / LEVELS
        step = np.where(step == 0, 1, step).astype(np.float32)
        levels = {side: np.clip(np.floor((values - start) / step), 0, LEVELS) for side, values in vectors.items()}
        search = {side: values - 128 for side, values in levels.items()}
        items = {side: values * step + start for side, values in levels.items()}
        size = sum(values.size for values in vectors.values())
    else:
        items = {side: (values > 0).astype(np.float32) for side, values in vectors.items()}
        search = {side: 2 * values - 1 for side, values in items.items()}
        size = sum(len(values) * -(-values.shape[1] // 8) for values in vectors.values())
    searched, queries, restored = (_with_vectors(run, sides, values) for values in (search, vectors, items))
    return Quantized(searched, queries, restored, size)


def _scale(run: EmbeddingsRun, side: str, embeddings: Embeddings) -> NDArray[np.float32]:
    if similarity_of(run) == "dot":
        return embeddings.vectors
    lengths = np.linalg.norm(embeddings.vectors, axis=1, keepdims=True)
    refuse_zero_vectors(embeddings.ids[lengths[:, 0] == 0], embeddings.ids.size, side, run.path or "run")
    return np.asarray(embeddings.vectors / lengths)


def _with_vectors(
    run: EmbeddingsRun, sides: dict[str, Embeddings], vectors: dict[str, NDArray[np.float32]]
) -> EmbeddingsRun:
    images, captions = (Embeddings(sides[side].ids, vectors[side]) if side in sides else None for side in SIDES)
    return EmbeddingsRun(images, captions, similarity="dot", model=run.model)


def rescore(quantized: Quantized, depth: int = DEPTH) -> RankingsRun:
    """The best items by quantized vectors, ranked again by the float query with the restored items.

    Args:
        quantized: the result of :func:`quantize`.
        depth: number of items of each query that are ranked again, and all that its ranking holds.

    References:
        ``semantic_search_faiss(..., rescore=True)`` of sentence-transformers.
    """
    run = quantized.search
    directions = [direction for direction in DIRECTIONS if run.why_not(direction) is None]
    return RankingsRun({direction: _rescore(quantized, direction, depth) for direction in directions}, run.model)


def _rescore(quantized: Quantized, direction: str, depth: int) -> RankedLists:
    query_side, item_side = sides_of(direction)
    queries, items = getattr(quantized.queries, query_side), getattr(quantized.items, item_side)
    lists = best_items(quantized.search, direction, depth)
    ids = lists.items.reshape(lists.query_ids.size, -1)
    query_rows, item_rows = positions_of(lists.query_ids, queries.ids)[0], positions_of(ids, items.ids)[0]
    scores: FloatArray = np.empty(ids.shape)
    at_once = max(1, VALUES_AT_ONCE // (ids.shape[1] * items.vectors.shape[1]))
    for start in range(0, len(ids), at_once):
        part = slice(start, start + at_once)
        products = items.vectors[item_rows[part]] @ queries.vectors[query_rows[part], :, None]
        scores[part] = products[..., 0]
    rows: IntArray = np.repeat(np.arange(len(ids)), ids.shape[1])
    order = np.lexsort((ids.ravel(), -scores.ravel(), rows))
    return RankedLists(lists.query_ids, lists.indptr, ids.ravel()[order], scores.ravel()[order], place="rescored")
