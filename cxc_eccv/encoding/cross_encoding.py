"""A cross-encoder to a score matrix, or to a new order of a dual encoder's top items."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cxc_eccv.encoding.pair_scorer import PairWork
from cxc_eccv.encoding.shards import check_output
from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.ranking.scores import refuse_zero_vectors, similarity_of
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.runs.npz import write_npz
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import Embeddings, FloatArray, IntArray, positions_of
from cxc_eccv.types.ids import check_whole
from cxc_eccv.writing import replaced_file

__all__ = ["rerank", "score_pairs"]

MOST_PAIRS = 10_000_000
"""More pairs than this are refused unless asked for: all of COCO 5K are 125 million."""


def score_pairs(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    *,
    output: str | Path | None = None,
    max_pairs: int = MOST_PAIRS,
    progress: bool = True,
    **options: Any,  # noqa: ANN401 - forwarded
) -> ScoresRun:
    """Score every image with every caption by an image-text-matching model.

    The score is the logit of "match", of a head with two classes its lead over "no match". Resumes, and shares the
    work under torchrun, as :func:`cxc_eccv.encoding.encode` does.

    Args:
        model: Hub id or folder, or a loaded model: ViLT, BLIP or BridgeTower with their retrieval head.
        output: ``.npz`` file of scores to write.
        max_pairs: most pairs to score.
        progress: show a bar.
        **options: ``images``, ``captions``, ``processor``, ``batch_size``, ``device``, ``dtype``,
            ``skip_bad_images``, as of :func:`cxc_eccv.encoding.encode`.

    Raises:
        InvalidOption: more pairs than ``max_pairs``; the message says what to do instead.
        ModelError: the model cannot be loaded, or does not score pairs.
        SourceMissing, MalformedSource: an image is missing, or broken.
    """
    path = None if output is None else check_output(output, [".npz"])
    work = PairWork(model, **options)
    n_images, n_captions = work.image_ids.size, work.caption_ids.size
    _refuse_too_many(n_images * n_captions, max_pairs, f"{n_images} images with {n_captions} captions")

    def make_matrix(pairs: IntArray, scores: NDArray[np.float32]) -> ScoresRun:
        kept = np.unique(pairs // n_captions)  # without the images that could not be read
        return ScoresRun(work.image_ids[kept], work.caption_ids, scores.reshape(kept.size, n_captions))

    return work.run(np.arange(n_images * n_captions), make_matrix, _write_scores, path, progress)


def rerank(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    run: EmbeddingsRun,
    *,
    top_k: int = 20,
    output: str | Path | None = None,
    max_pairs: int = MOST_PAIRS,
    progress: bool = True,
    **options: Any,  # noqa: ANN401 - forwarded
) -> RankingsRun:
    """Rank the top of a dual encoder anew, by the scores of an image-text-matching model.

    Every image keeps its ``top_k`` captions by cosine and every caption its ``top_k`` images; the lists end there, so
    that metrics that look deeper are refused.

    Args:
        model: as of :func:`score_pairs`.
        run: vectors of all these images and captions.
        top_k: items per query.
        output: ``.parquet`` file of rankings to write.
        max_pairs: most pairs to score.
        progress: show a bar.
        **options: as of :func:`score_pairs`.

    Raises:
        InvalidOption: ``top_k`` is below 1 or above the number of images or captions; too many pairs.
        MissingIds: the run lacks an image or a caption.
        ModelError: the model cannot be loaded, or does not score pairs.
    """
    path = None if output is None else check_output(output, [".parquet"])
    work = PairWork(model, **options)
    most = min(work.image_ids.size, work.caption_ids.size)
    check_whole("top_k", top_k)
    if top_k > most:
        raise InvalidOption(f"top_k is {top_k!r}, expected a whole number from 1 to {most}, the smaller gallery's size")
    found = candidates(run, work.image_ids, work.caption_ids, top_k)
    n_captions = work.caption_ids.size
    images, captions = (np.arange(len(rows))[:, None] for rows in (found["i2t"], found["t2i"]))
    both = ((images * n_captions + found["i2t"]).ravel(), (found["t2i"] * n_captions + captions).ravel())
    pairs = np.unique(np.concatenate(both))
    _refuse_too_many(pairs.size, max_pairs, f"the top {top_k} of every query")

    make = partial(_rank_by_score, found, (work.image_ids, work.caption_ids))
    return work.run(pairs, make, write_rankings, path, progress)


def _refuse_too_many(pairs: int, most: int, what: str) -> None:
    if pairs > most:
        raise InvalidOption(
            f"{what} are {pairs:,} pairs, each a pass through the model; more than max_pairs={most:,}. Re-rank a dual "
            "encoder's top 20 instead (rerank; --rerank FILE.npz --top-k 20), or raise max_pairs (--max-pairs)"
        )


def _write_scores(path: Path, run: ScoresRun) -> None:
    with replaced_file(path) as part:
        write_npz(part, {"image_ids": run.image_ids, "caption_ids": run.caption_ids, "scores": run.scores})


ROWS_AT_ONCE = 512


def candidates(run: EmbeddingsRun, image_ids: IntArray, caption_ids: IntArray, top_k: int) -> dict[str, IntArray]:
    """The ``top_k`` captions of each image and images of each caption, by the similarity that the run is meant for.

    ``i2t`` has (N, top_k) rows of captions, ``t2i`` (M, top_k) rows of images; of equal ones those that come first.
    """
    images, captions = _take_vectors(run, image_ids, "images"), _take_vectors(run, caption_ids, "captions")
    return {"i2t": _take_top(images, captions, top_k), "t2i": _take_top(captions, images, top_k)}


def _rank_by_score(
    found: dict[str, IntArray], ids: tuple[IntArray, IntArray], pairs: IntArray, scores: NDArray[np.float32]
) -> RankingsRun:
    """Every query's candidates by the (P,) scores of the numbered pairs; one without a score (a bad image) is left out.

    ``found`` comes from :func:`candidates`; ``ids`` are those of the images and of the captions.
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
    for direction, lists in run.lists.items():
        columns = {
            "query_id": np.repeat(lists.query_ids, lists.depths),
            "direction": pa.array([direction] * lists.items.size),
            "rank": np.arange(lists.items.size) - np.repeat(lists.indptr[:-1], lists.depths) + 1,
            "item_id": lists.items.astype(np.int64),
        }
        if lists.scores is not None:
            columns["score"] = lists.scores
        tables.append(pa.table(columns))
    with replaced_file(path) as part:
        pq.write_table(pa.concat_tables(tables), part, write_page_checksum=True)


def _take_vectors(run: EmbeddingsRun, ids: IntArray, side: str) -> FloatArray:
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


def _take_top(queries: FloatArray, gallery: FloatArray, top_k: int) -> IntArray:
    rows = [
        np.argsort(-(queries[start : start + ROWS_AT_ONCE] @ gallery.T), axis=1, kind="stable")[:, :top_k]
        for start in range(0, len(queries), ROWS_AT_ONCE)
    ]
    return np.concatenate(rows)
