"""A cross-encoder to a score matrix, or to a new order of a dual encoder's top items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cxc_eccv.encoding.output_path import checked_output
from cxc_eccv.encoding.pair_work import PairWork, Scored
from cxc_eccv.encoding.reranked import candidates, rankings_by_score, write_rankings
from cxc_eccv.errors import InvalidOption
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.runs.npz import write_npz
from cxc_eccv.writing import replaced_file

__all__ = ["MOST_PAIRS", "rerank", "score_pairs"]

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
    path = None if output is None else checked_output(output, [".npz"])
    work = PairWork.of(model, **options)
    n_images, n_captions = work.image_ids.size, work.caption_ids.size
    _refuse_too_many(n_images * n_captions, max_pairs, f"{n_images} images with {n_captions} captions")

    def matrix(scored: Scored) -> ScoresRun:
        rows, columns = np.divmod(scored.pairs, n_captions)
        kept = np.unique(rows)
        scores = scored.scores[np.lexsort((columns, rows))].reshape(kept.size, n_captions)
        return ScoresRun(work.image_ids[kept], work.caption_ids, scores)

    return work.run(np.arange(n_images * n_captions), matrix, _write_scores, path, progress)


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
    path = None if output is None else checked_output(output, [".parquet"])
    work = PairWork.of(model, **options)
    most = min(work.image_ids.size, work.caption_ids.size)
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= most:
        raise InvalidOption(f"top_k is {top_k!r}, expected a whole number from 1 to {most}, the smaller gallery's size")
    found = candidates(run, work.image_ids, work.caption_ids, top_k)
    n_captions = work.caption_ids.size
    images, captions = (np.arange(len(rows))[:, None] for rows in (found["i2t"], found["t2i"]))
    both = ((images * n_captions + found["i2t"]).ravel(), (found["t2i"] * n_captions + captions).ravel())
    pairs = np.unique(np.concatenate(both))
    _refuse_too_many(pairs.size, max_pairs, f"the top {top_k} of every query")

    def rankings(scored: Scored) -> RankingsRun:
        return rankings_by_score(found, (work.image_ids, work.caption_ids), scored.pairs, scored.scores)

    return work.run(pairs, rankings, write_rankings, path, progress)


def _refuse_too_many(pairs: int, most: int, what: str) -> None:
    if pairs > most:
        raise InvalidOption(
            f"{what} are {pairs:,} pairs, each a pass through the model; more than max_pairs={most:,}. Re-rank a dual "
            "encoder's top 20 instead (rerank; --rerank FILE.npz --top-k 20), or raise max_pairs (--max-pairs)"
        )


def _write_scores(path: Path, run: ScoresRun) -> None:
    with replaced_file(path) as part:
        write_npz(part, {"image_ids": run.image_ids, "caption_ids": run.caption_ids, "scores": run.scores})
