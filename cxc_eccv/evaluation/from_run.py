"""evaluate: the main job, from a run to a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cxc_eccv.errors import MalformedRun, RunTooShallow
from cxc_eccv.evaluation.from_measured import report_of_measured
from cxc_eccv.evaluation.known_ids import refuse_unknown_ids
from cxc_eccv.evaluation.measured import measured
from cxc_eccv.evaluation.provenance import run_facts
from cxc_eccv.evaluation.requests import requested
from cxc_eccv.evaluation.settings import Settings, check_split
from cxc_eccv.evaluation.unjudged import Unjudged
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Report

__all__ = ["evaluate"]


def evaluate(
    run: Run,
    tasks: str | Sequence[str] = "all",
    *,
    metrics: Sequence[str] | None = None,
    split: str = "test",
    data_dir: str | Path | Library | None = None,
    seed: int = 0,
    confidence: float | None = 0.95,
    intervals: str = "bootstrap",
    unjudged: Unjudged = "not_entailed",
    per_query: bool = False,
    similarity: str = "cosine",
    block_size: int | None = None,
    progress: bool = True,
    device: str | None = None,
) -> Report:
    """Score a run on tasks.

    Every query ranks the whole gallery of its task, exactly. An item that ties with a positive counts as ranked above
    it. Items of the run that no task needs are left out and counted in the provenance.

    Args:
        run: embeddings, scores or rankings, as :func:`cxc_eccv.runs.load.load_run` gives them.
        tasks: ``all`` for those that the run and the data allow, or names, each alone (``cxc``) or with a direction
            (``cxc/t2t``).
        metrics: names (``recall_at_k``, ``recall_at_20``, ``median_rank``); None for each task's own, of which those
            are skipped that rankings are not deep enough for.
        split: ``validation`` or ``test``.
        data_dir: mirror folder, ``"sample"`` for the embedded sample, a Library, or None for ``CXC_ECCV_DATA``, else
            the download cache.
        seed: of the bootstrap behind the intervals.
        confidence: of the intervals; None for no intervals.
        intervals: ``bootstrap`` over images, which keeps the captions of one image together; ``binomial``: Wilson's
            interval for recall, as if queries were independent; ``binomial_images``: that with the number of images
            in place of that of the queries, as some papers have it; the bootstrap for other metrics; or ``none``.
        unjudged: what Entail@K does with a retrieved pair without a label: ``not_entailed`` counts it as 0,
            ``leave_out`` takes the fraction among labelled pairs alone, a function of image ids and caption ids (or a
            table with ``image_id``, ``caption_id``, ``label``) says its label. Results state policy and coverage.
        per_query: keep the value of every query in ``report.per_query``.
        similarity: ``cosine`` or ``dot``; of embeddings.
        block_size: queries that one thread scores at once; None for about 100 MB of scores in all; of embeddings.
        progress: show a bar when standard error is a terminal.
        device: a torch device to score embeddings on, for example ``cuda``; None for NumPy on the processor.

    Returns:
        One result per task, direction and metric; ``report.skipped`` says which were left out and why.

    Raises:
        UnknownName: no such task, direction, metric or split.
        InvalidOption: an option out of range, or a task that was named and cannot be computed.
        RunError: the run lacks items that a task needs or has items that the data does not know; rankings are too
            short for a metric that was named, or for all of a task that was named.
        DataError: a raw file is missing or malformed.

    Example:
        >>> import numpy as np
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> library = Library("sample")
        >>> captions = library.captions("test")["caption_id"].to_numpy()
        >>> vectors = np.random.default_rng(0).standard_normal((captions.size, 8))
        >>> text_only = EmbeddingsRun(None, Embeddings(captions, vectors))
        >>> report = evaluate(text_only, "cxc", data_dir=library)
        >>> [result.key for result in report.results][:2], report.skipped["cxc/i2t"]
        (['cxc/t2t/recall_at_1', 'cxc/t2t/recall_at_5'], 'the run has no images')
    """
    if not isinstance(run, Run):
        raise MalformedRun(f"{run!r:.60} is no run; read a file with load_run, or give arrays or dicts to one")
    check_split(split)
    settings = Settings(seed, confidence, intervals, unjudged, per_query)
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    requests, skipped = requested(run, tasks, library, split, metrics)
    found = measured(run, requests, similarity=similarity, block_size=block_size, progress=progress, device=device)
    asked = [one for request in requests for one in request.asked]
    refuse_unknown_ids(run, asked, library, [request.task.collection for request in requests])
    report = report_of_measured(
        found,
        library,
        split,
        settings,
        metrics=metrics,
        skipped=skipped,
        run=run_facts(run, asked),
        similarity=similarity if run.kind == "embeddings" else None,
    )
    _refuse_empty_tasks(report, tasks)
    return report


def _refuse_empty_tasks(report: Report, tasks: str | Sequence[str]) -> None:
    """A task that was named and of which nothing could be computed is an error."""
    if tasks == "all":
        return
    computed = {result.task for result in report.results}
    reasons = {key: reason for key, reason in report.skipped.items() if key.partition("/")[0] not in computed}
    if reasons:
        name = next(iter(reasons)).partition("/")[0]
        own = [reason for key, reason in reasons.items() if key.startswith(f"{name}/")]
        raise RunTooShallow(f"{name} cannot be computed: " + "; ".join(dict.fromkeys(own)))
