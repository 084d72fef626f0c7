"""evaluate: the main job, from a run to a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cxc_eccv.evaluation.plan import plan_of
from cxc_eccv.evaluation.provenance import run_facts
from cxc_eccv.evaluation.report_of_ranks import check_options, report_of_ranks
from cxc_eccv.evaluation.requests import requested
from cxc_eccv.ranking import positive_ranks_many
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Report

__all__ = ["evaluate"]


def evaluate(
    run: EmbeddingsRun,
    tasks: str | Sequence[str] = "all",
    *,
    metrics: Sequence[str] | None = None,
    split: str = "test",
    data_dir: str | Path | Library | None = None,
    seed: int = 0,
    confidence: float | None = 0.95,
    similarity: str = "cosine",
    block_size: int | None = None,
    progress: bool = True,
) -> Report:
    """Score a run on tasks.

    Every query ranks the whole gallery of its task, exactly. An item that ties with a positive counts as ranked above
    it. Items of the run that no task needs are left out and counted in the provenance.

    Args:
        run: image vectors, caption vectors, or both, from one space.
        tasks: ``all`` for those that the run and the data allow, or names, each alone (``cxc``) or with a direction
            (``cxc/t2t``).
        metrics: names (``recall_at_k``, ``recall_at_20``, ``median_rank``); None for each task's own.
        split: ``validation`` or ``test``.
        data_dir: mirror folder, ``"sample"`` for the embedded sample, a Library, or None for ``CXC_ECCV_DATA``, else
            the download cache.
        seed: of the bootstrap behind the intervals.
        confidence: of the intervals; None for no intervals.
        similarity: ``cosine`` or ``dot``.
        block_size: queries that one thread scores at once; None for about 64 MB of scores in all.
        progress: show a bar when standard error is a terminal.

    Returns:
        One result per task, direction and metric; ``report.skipped`` says which were left out and why.

    Raises:
        UnknownName: no such task, direction, metric or split.
        InvalidOption: an option out of range, or a task that was named and cannot be computed.
        RunError: the run lacks items that a task needs.
        DataError: a raw file is missing or malformed.

    Example:
        >>> import numpy as np
        >>> from cxc_eccv.types import Embeddings
        >>> library = Library("sample")
        >>> captions = library.captions("test")["caption_id"].to_numpy()
        >>> vectors = np.random.default_rng(0).standard_normal((captions.size, 8))
        >>> text_only = EmbeddingsRun(None, Embeddings(captions, vectors))
        >>> report = evaluate(text_only, "cxc", data_dir=library)
        >>> [result.key for result in report.results][:2], report.skipped["cxc/i2t"]
        (['cxc/t2t/recall_at_1', 'cxc/t2t/recall_at_5'], 'the run has no images')
    """
    check_options(split, seed, confidence)
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    requests, skipped = requested(run, tasks, library, split)
    for request in requests:
        plan_of(request.task, metrics)
    judgments = {request.key: (request.direction, request.judgments) for request in requests}
    ranks = positive_ranks_many(run, judgments, similarity=similarity, block_size=block_size, progress=progress)
    return report_of_ranks(
        {request.key: (request.judgments, ranks[request.key]) for request in requests},
        library,
        split,
        run=run_facts(run, judgments.values()),
        metrics=metrics,
        seed=seed,
        confidence=confidence,
        skipped=skipped,
        similarity=similarity,
    )
