"""Rankings of a dual encoder's top items by the scores of a cross-encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cxc_eccv.errors import MissingIds
from cxc_eccv.ranking.scores.vectors import refuse_zero_vectors, similarity_of
from cxc_eccv.runs import EmbeddingsRun, RankingsRun
from cxc_eccv.runs.ranked_lists import RankedLists
from cxc_eccv.types import Embeddings, FloatArray, IntArray, positions_of
from cxc_eccv.writing import replaced_file

__all__ = ["candidates", "rankings_by_score", "write_rankings"]

ROWS_AT_ONCE = 512


def candidates(run: EmbeddingsRun, image_ids: IntArray, caption_ids: IntArray, top_k: int) -> dict[str, IntArray]:
    """The ``top_k`` captions of each image and images of each caption, by the similarity that the run is meant for.

    Args:
        run: of a dual encoder.
        image_ids: (N,) ids, all in the run.
        caption_ids: (M,) ids, all in the run.
        top_k: candidates per query; of equal ones at the end, those that come first.

    Returns:
        ``i2t`` (N, top_k) rows of captions and ``t2i`` (M, top_k) rows of images.

    Raises:
        MissingIds: the run lacks an image or a caption.
        MalformedRun: a zero vector, which has no cosine.

    Example:
        >>> run = EmbeddingsRun(Embeddings([1, 2], np.eye(2)), Embeddings([7, 8], [[0.1, 1], [1, 0]]))
        >>> candidates(run, np.array([1, 2]), np.array([7, 8]), 1)["i2t"].tolist()
        [[1], [0]]
    """
    images, captions = _compared(run, image_ids, "images"), _compared(run, caption_ids, "captions")
    return {"i2t": _top(images, captions, top_k), "t2i": _top(captions, images, top_k)}


def rankings_by_score(
    found: dict[str, IntArray], ids: tuple[IntArray, IntArray], pairs: IntArray, scores: NDArray[np.float32]
) -> RankingsRun:
    """Every query's candidates by the cross-encoder's score.

    Args:
        found: of :func:`candidates`.
        ids: of the images and of the captions.
        pairs: (P,) ascending numbers of the pairs scored, image row times number of captions plus caption row.
        scores: (P,) of these.

    Returns:
        One list per query, with scores; a candidate whose pair has no score (a bad image) is not in it.
    """
    lists = {}
    for direction, rows in found.items():
        queries, items = ids if direction == "i2t" else ids[::-1]
        numbers = np.arange(len(rows))[:, None] * ids[1].size + rows
        if direction == "t2i":
            numbers = rows * ids[1].size + np.arange(len(rows))[:, None]
        places, known = positions_of(numbers.ravel(), pairs)
        given = np.where(known, scores[places], -np.inf).reshape(rows.shape)
        order = np.argsort(-given, axis=1, kind="stable")
        kept = np.take_along_axis(known.reshape(rows.shape), order, 1)
        counts = kept.sum(axis=1)
        ranked, given = (np.take_along_axis(values, order, 1)[kept] for values in (items[rows], given))
        indptr = np.append(0, np.cumsum(counts[counts > 0]))
        lists[direction] = RankedLists(queries[counts > 0], indptr, ranked, given, place=f"re-ranked {direction}")
    return RankingsRun(lists)


def write_rankings(path: Path, run: RankingsRun) -> None:
    """Write ``query_id``, ``direction``, ``rank``, ``item_id`` and ``score`` as Parquet, in one step."""
    tables = []
    for direction, one in run.lists.items():
        columns = {
            "query_id": np.repeat(one.query_ids, one.depths),
            "direction": pa.array([direction] * one.items.size),
            "rank": np.arange(one.items.size) - np.repeat(one.indptr[:-1], one.depths) + 1,
            "item_id": one.items.astype(np.int64),
        }
        if one.scores is not None:
            columns["score"] = one.scores
        tables.append(pa.table(columns))
    with replaced_file(path) as part:
        pq.write_table(pa.concat_tables(tables), part, write_page_checksum=True)


def _compared(run: EmbeddingsRun, ids: IntArray, side: str) -> FloatArray:
    embeddings: Embeddings | None = getattr(run, side)
    if embeddings is None:
        raise MissingIds(f"the run to re-rank has no {side}; encode both sides with a dual encoder")
    places, known = positions_of(ids, embeddings.ids)
    if not known.all():
        raise MissingIds(
            f"the run to re-rank lacks {np.count_nonzero(~known)} of {ids.size} {side}, the first: {ids[~known][0]}. "
            "Encode them too, or name the split that it was made of."
        )
    vectors = embeddings.vectors[places].astype(np.float64)
    if similarity_of(run) == "dot":
        return vectors
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    refuse_zero_vectors(ids[lengths[:, 0] == 0], ids.size, side, run.path or "the run to re-rank")
    return np.asarray(vectors / lengths)


def _top(queries: FloatArray, gallery: FloatArray, top_k: int) -> IntArray:
    rows = [
        np.argsort(-(queries[start : start + ROWS_AT_ONCE] @ gallery.T), axis=1, kind="stable")[:, :top_k]
        for start in range(0, len(queries), ROWS_AT_ONCE)
    ]
    return np.concatenate(rows)
