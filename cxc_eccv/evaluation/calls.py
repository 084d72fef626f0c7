"""The public calls: a run, dicts of rankings, or ranks from elsewhere, to a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import InvalidOption, MalformedRun, raise_all
from cxc_eccv.evaluation.bounds import BoundsOfNeeds
from cxc_eccv.evaluation.labels import describe_sources
from cxc_eccv.evaluation.measure import find_faults, measure, refuse_to_compute
from cxc_eccv.evaluation.needs import AnyRanks, Ranks
from cxc_eccv.evaluation.report import choose_similarity, describe_run, make_report, name_model
from cxc_eccv.evaluation.select import Part, plan_of, select
from cxc_eccv.evaluation.settings import Probabilities, Settings, Unjudged, check_split
from cxc_eccv.ranking.scores import one_blas_thread
from cxc_eccv.registry import task
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, Judgments, Report


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
    similarity: str | None = None,
    block_size: int | None = None,
    progress: bool = True,
    device: str | None = None,
    name: str | None = None,
    limit: int | None = None,
    allow_missing: bool = False,
    bounds: bool = False,
    bounds_depth: int | None = None,
    probabilities: Probabilities = None,
    sources: str | Sequence[str] | None = None,
) -> Report:
    """Score a run on tasks.

    Every query ranks the whole gallery of its task, exactly. An item that ties with a positive counts as ranked above
    it. Items of the run that no task needs are left out and counted in the provenance.

    A part of the split can be scored, as if the rest of it had never been: galleries, queries and positives shrink to
    that part, and every form of the report says so. Its numbers are higher than those on the whole split; no
    leaderboard takes them, and they are compared with those on the same part alone. Images that ``encode`` could not
    read and was told to skip are left out in this way by themselves.

    With ``sources`` the positives of every task are what these say together, as if the tasks had been labelled so: for
    the queries of the task, in its gallery and folds; what such sources cannot label is skipped. Every form of the
    report says so, no leaderboard takes it, and it is compared with reports on the same labels alone.

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
            table with ``image_id``, ``caption_id``, ``label``; or ``ClassifierJudge``,
            a trained classifier) says its label. Results state policy and coverage.
        per_query: keep the value of every query in ``report.per_query``, and the run itself, so that ``report.save``
            writes all that a comparison and the page need.
        similarity: ``cosine`` or ``dot``; of embeddings. None for what the run file is meant for, and for cosine where
            it does not say; the provenance records which was taken, and from where.
        block_size: queries that one thread scores at once; None for about 80 MB of scores in all; of embeddings.
        progress: show a bar when standard error is a terminal.
        device: a torch device to score embeddings on, for example ``cuda``; None for NumPy on the processor.
        name: what the model is called, in the report's title and in comparisons; None for what the run says.
        limit: score the first images alone, so many in the order of their ids, and their captions: a first try.
        allow_missing: score what the run has of the split, instead of refusing a run that lacks items; not for
            rankings, which do not tell what their galleries lacked.
        bounds: give each number of retrieval the lowest and the highest value that it would have under any labels of
            the retrieved pairs that nobody judged (:attr:`cxc_eccv.types.reported.Result.bounds`); the page on pairs
            without a label defines them.
        bounds_depth: how many items of a query count as retrieved for bounds of a metric without K; None for 50.
        probabilities: for expected values beside the bounds, how probable it is that an image with its captions entails
            a caption: a function of image ids and caption ids, a table with ``image_id``, ``caption_id`` and
            ``probability``, or the path of a Parquet file with these columns. None for those of the classifier that
            ``unjudged`` is, where it has any.
        sources: sources of labels that say together what is positive, in place of those of each task: ``coco``,
            ``cxc``, ``eccv``, ``entailment``, and the names of the label files of the library that ``data_dir`` is.
            None for what each task declares.

    Returns:
        One result per task, direction and metric; ``report.skipped`` says which were left out and why.

    Raises:
        UnknownName: no such task, direction, metric, split or similarity.
        InvalidOption: an option out of range, a name that is no line of text, a task that was named and cannot be
            computed, or ``similarity``, ``block_size`` or ``device`` for scores or rankings.
        RunError: the run lacks items that a task needs or has items that the data does not know; rankings are too
            short for a metric that was named, or for all of a task that was named. Everything that can be told before
            the pass over scores or rankings is told then, a line each.
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
    if isinstance(run, RankingsRun) and run.corpus is not None:
        raise InvalidOption(
            f"{run.path or 'run'}: ranks images by {run.corpus}, which no task does; cxc-eccv explain takes this file"
        )
    scoring = choose_similarity(run, similarity=similarity, block_size=block_size, device=device)
    check_split(split)
    settings = Settings(seed, confidence, intervals, unjudged, per_query, bounds, bounds_depth, probabilities)
    model = name_model(run, name)
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    options = {"block_size": block_size, "progress": progress, "device": device}
    with one_blas_thread():  # threads of its own, waiting for the next product, would take time from ours
        chosen = select(run, tasks, library, split, metrics, limit=limit, allow_missing=allow_missing, sources=sources)
        parts, left_out = chosen.parts, chosen.restriction.facts
        faults = find_faults(run, parts, library, named=tasks != "all", strict=metrics is not None)
        raise_all([*chosen.refused, *faults])
        ranges: BoundsOfNeeds | None = None
        if settings.bounds:
            needs = [need for part in parts for need in part.needs]
            ranges = BoundsOfNeeds(run, needs, library, split, settings.depth, chosen.sources)
        measure(run, parts, scoring["similarity"], ranges, **options)
        facts = {"run": describe_run(run, parts), **scoring, **model, **({"restriction": left_out} if left_out else {})}
        facts |= {"labels": describe_sources(chosen.sources, library, split)} if chosen.sources else {}
        report = make_report(parts, library, split, settings, bounds=ranges, skipped=chosen.skipped, **facts)
    _refuse_empty_tasks(report, tasks)
    return replace(report, origin=(run, library)) if per_query else report


def check_request(
    sides: Sequence[str],
    tasks: str | Sequence[str] = "all",
    *,
    metrics: Sequence[str] | None = None,
    split: str = "test",
    data_dir: str | Path | Library | None = None,
    limit: int | None = None,
    sources: str | Sequence[str] | None = None,
    similarity: str | None = None,
    device: str | None = None,
    block_size: int | None = None,
    name: str | None = None,
    **settings: Any,  # noqa: ANN401 - those of evaluate
) -> None:
    """Raise what :func:`evaluate` would raise of its options and raw files, before a model is encoded."""
    check_split(split)
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    content = library.karpathy(split)
    ids = {"images": content.image_ids, "captions": content.caption_ids}
    ones = {side: Embeddings(ids[side], np.ones((ids[side].size, 1), np.float32)) for side in sides}
    run = EmbeddingsRun(ones.get("images"), ones.get("captions"))
    choose_similarity(run, similarity=similarity, block_size=block_size, device=device)
    name_model(run, name)
    Settings(**{option: value for option, value in settings.items() if option != "progress"})
    raise_all(select(run, tasks, library, split, metrics, limit=limit, sources=sources).refused)


def _refuse_empty_tasks(report: Report, tasks: str | Sequence[str]) -> None:
    """A task that was named and of which nothing could be computed is an error."""
    if tasks == "all":
        return
    computed = {result.task for result in report.results}
    reasons = {key: reason for key, reason in report.skipped.items() if key.partition("/")[0] not in computed}
    names = dict.fromkeys(key.partition("/")[0] for key in reasons)
    own = {name: [reason for key, reason in reasons.items() if key.startswith(f"{name}/")] for name in names}
    raise_all(refuse_to_compute(name, why) for name, why in own.items())


def evaluate_rankings(
    i2t: Mapping[Any, ArrayLike] | None = None,
    t2i: Mapping[Any, ArrayLike] | None = None,
    tasks: str | Sequence[str] = "all",
    **options: Any,  # noqa: ANN401 - those of evaluate
) -> Report:
    """Score rankings given as dicts, the first two arguments of ``compute_all_metrics`` in the eccv_caption package.

    Its ``coco_1k``, ``coco_5k`` and ``eccv`` metrics are those of the tasks of these names, its ``cxc`` recalls those
    of ``cxc_rated``. Whole rankings give all of them; rankings cut short give those they are deep enough for, and the
    report says which were skipped.

    Args:
        i2t: image id to ranked caption ids, best first.
        t2i: caption id to ranked image ids.
        tasks: as in :func:`evaluate`.
        **options: as in :func:`evaluate`.

    Raises:
        RunError: an empty dict, ids that are no whole numbers, repeated or unknown, queries that are missing, rankings
            too short for what was named.

    Example:
        >>> from cxc_eccv.sources.library import Library
        >>> captions = Library("sample").captions("test")["caption_id"].to_pylist()
        >>> images = Library("sample").images("test")["image_id"].to_pylist()
        >>> report = evaluate_rankings(t2i=dict.fromkeys(captions, images), tasks="coco_5k", data_dir="sample")
        >>> round(report.scores["coco_5k/t2i/recall_at_1"], 4), report.skipped["coco_5k/i2t"]
        (0.0167, 'the run has no i2t rankings')
    """
    return evaluate(RankingsRun.from_dicts(i2t, t2i), tasks, **options)


def report_of_ranks(
    ranked: Mapping[str, tuple[Judgments, AnyRanks]],
    library: Library,
    split: str,
    *,
    metrics: Sequence[str] | None = None,
    settings: Settings | None = None,
    skipped: Mapping[str, str] | None = None,
    **provenance: Any,  # noqa: ANN401 - recorded as they are
) -> Report:
    """Score ranks and report them, with those metrics that ranks suffice for.

    Args:
        ranked: ``task/direction`` to the judgments and the ranks of their positives.
        library: the raw sources the judgments came from.
        split: of the judgments.
        metrics: names (``recall_at_k``, ``recall_at_20``, ``median_rank``); None for each task's own.
        settings: seed, intervals, per-query values; None for the defaults.
        skipped: task or task/direction to the reason why it is not among ``ranked``.
        **provenance: further entries of the provenance, for example ``model``.

    Raises:
        UnknownName: no such task, metric or split.

    Example:
        >>> from cxc_eccv.types import PositiveRanks
        >>> library = Library("sample")
        >>> judgments = task("coco_5k").judgments(library, "test", "i2t")
        >>> first = PositiveRanks.of([[1, 2, 3, 4, 5]] * judgments.query_ids.size)
        >>> report = report_of_ranks({"coco_5k/i2t": (judgments, first)}, library, "test", model="ideal")
        >>> report.scores["coco_5k/i2t/recall_at_1"]
        1.0
    """
    check_split(split)
    parts = []
    for key, (judgments, ranks) in ranked.items():
        name, _, direction = key.partition("/")
        plan = plan_of(task(name), metrics)
        variants = [variant for variant in plan.parts[direction] if variant.spec.needs == "ranks"]
        need = Ranks(plan.task, direction, judgments, variants)
        need.settle(ranks)
        parts.append(Part(plan, direction, (need,)))
    return make_report(parts, library, split, settings or Settings(), skipped=skipped, **provenance)
