"""Re-ranks the top items of a dual encoder by the scores of a cross-encoder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.encoding.cross_encoding import MOST_PAIRS, Encode, PairWork, refuse_too_many
from cxc_eccv.encoding.loading import load_model
from cxc_eccv.encoding.shards import Notes
from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.ranking import ranked
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.runs.rankings import RankedLists, write_rankings
from cxc_eccv.types import IntArray, Judgments, check_whole, find_positions
from cxc_eccv.types.ids import make_indptr
from cxc_eccv.types.model_options import PLAIN, Encoding
from cxc_eccv.writing import check_output


def rerank(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    run: Run,
    images: str | Path | Iterable[tuple[Any, Any]],
    captions: Any,  # noqa: ANN401 - a table or pairs
    *,
    top_k: int = 20,
    score: str = "itm",
    output: str | Path | None = None,
    max_pairs: int = MOST_PAIRS,
    encoding: Encoding = PLAIN,
    progress: bool = True,
) -> RankingsRun:
    """Re-rank the top items of a dual encoder by the scores of an image-text-matching model.

    Every image keeps its ``top_k`` captions by the run's similarity, and every caption its ``top_k`` images. The
    rankings end there, so metrics that look deeper are refused.

    Args:
        model: as in :func:`score_pairs`.
        run: vectors or scores of all these images and captions.
        images: as in :func:`score_pairs`.
        captions: as in :func:`score_pairs`.
        top_k: items per query.
        score: ``itm`` or ``itm+itc``, as in :func:`score_pairs`.
        output: ``.parquet`` file of rankings to write.
        max_pairs: most pairs to score.
        encoding: as in :func:`score_pairs`.
        progress: show a progress bar.

    Raises:
        InvalidOption: ``top_k`` is below 1 or above the number of images or captions; or there are too many pairs.
        MissingIds: the run lacks an image or a caption.
        ModelError: the model cannot be loaded, or does not score pairs.
    """
    path = None if output is None else check_output(output, [".parquet"])
    if score == "itc":
        raise InvalidOption("score itc is not for re-ranking; score all pairs by itc, and re-rank the top of that file")
    work = PairWork(load_model(model), score, images, captions, encoding)
    ids = work.image_ids, work.caption_ids
    tops, pairs = _top_pairs(run, ids, top_k, max_pairs)

    def make_lists(encode_one: Encode) -> tuple[RankingsRun, Notes]:
        scored, scores, notes = work.score(pairs, encode_one)
        return _rank_by_score(tops, ids, work.title, scored, scores), notes

    return work.run(make_lists, write_rankings, path, progress)


def _top_pairs(
    run: Run, ids: tuple[IntArray, IntArray], top_k: int, max_pairs: int
) -> tuple[dict[str, IntArray], IntArray]:
    """The candidates of both directions, and the ascending numbers of their pairs."""
    most, n_captions = min(ids[0].size, ids[1].size), ids[1].size
    check_whole("top_k", top_k)
    if top_k > most:
        raise InvalidOption(f"top_k is {top_k!r}, expected a whole number from 1 to {most}, the smaller gallery's size")
    tops = find_candidates(run, *ids, top_k)
    images, captions = (np.arange(len(rows))[:, None] for rows in (tops["i2t"], tops["t2i"]))
    both = ((images * n_captions + tops["i2t"]).ravel(), (tops["t2i"] * n_captions + captions).ravel())
    pairs = np.unique(np.concatenate(both))
    refuse_too_many(pairs.size, max_pairs, f"the top {top_k} of every query")
    return tops, pairs


def find_candidates(run: Run, image_ids: IntArray, caption_ids: IntArray, top_k: int) -> dict[str, IntArray]:
    """(N, top_k) captions of each image (``i2t``) and (M, top_k) images of each caption (``t2i``), of ties by id."""
    if run.may_be_cut:
        raise InvalidOption(f"a run of {run.kind} has no candidates to re-rank; give embeddings or scores")
    for side, wanted in (("images", image_ids), ("captions", caption_ids)):
        missing = wanted[~np.isin(wanted, run.ids(side))]
        if missing.size:
            raise MissingIds(
                f"the run to re-rank lacks {missing.size} of {wanted.size} {side}, the first: {missing[0]}. Encode "
                "them too, or name the split from which it was made."
            )
    ids = {"i2t": (image_ids, caption_ids), "t2i": (caption_ids, image_ids)}
    readers = {direction: [TopRows(Judgments.of_nothing(*pair), top_k)] for direction, pair in ids.items()}
    ranked(run).rank_all({}, readers)
    return {name: find_positions(reader.result.ids, ids[name][1])[0] for name, (reader,) in readers.items()}


def _rank_by_score(
    tops: dict[str, IntArray],
    ids: tuple[IntArray, IntArray],
    title: str | None,
    pairs: IntArray,
    scores: NDArray[Any],
) -> RankingsRun:
    """Every query's candidates ordered by the (P,) scores of numbered pairs, without unreadable images."""
    lists = {}
    for direction, rows in tops.items():
        queries, items = ids if direction == "i2t" else ids[::-1]
        numbers = np.arange(len(rows))[:, None] * ids[1].size + rows
        if direction == "t2i":
            numbers = rows * ids[1].size + np.arange(len(rows))[:, None]
        places, known = find_positions(numbers.ravel(), pairs)
        table = np.where(known, scores[places], -np.inf).reshape(rows.shape)
        order = np.argsort(-table, axis=1, kind="stable")
        kept = np.take_along_axis(known.reshape(rows.shape), order, 1)
        counts = kept.sum(axis=1)
        ranked, ordered = (np.take_along_axis(values, order, 1)[kept] for values in (items[rows], table))
        indptr = make_indptr(counts[counts > 0])
        lists[direction] = RankedLists(queries[counts > 0], indptr, ranked, ordered, place=f"re-ranked {direction}")
    return RankingsRun(lists, title)
