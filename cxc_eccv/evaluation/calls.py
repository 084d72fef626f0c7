"""The public calls: they turn a run, dicts of rankings, or ranks into a report, or a run into its open pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import InvalidOption, MalformedRun, RunTooShallow, raise_all
from cxc_eccv.evaluation.answers import Answers
from cxc_eccv.evaluation.bounds import BoundsOfNeeds, Units
from cxc_eccv.evaluation.labels import describe_sources, find_repeats
from cxc_eccv.evaluation.measure import find_faults, measure
from cxc_eccv.evaluation.needs import Ranks
from cxc_eccv.evaluation.report import choose_similarity, describe_run, make_report, name_model, training_data_of
from cxc_eccv.evaluation.select import Part, plan_of, select
from cxc_eccv.evaluation.settings import Probabilities, Settings, Unjudged, check_split
from cxc_eccv.ranking.scores import one_blas_thread
from cxc_eccv.registry import task
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, Judgments, PositiveRanks, Report
from cxc_eccv.types.models import FROM_CARD, check_training_data


def evaluate(
    run: Run,
    tasks: str | Sequence[str] = "all",
    *,
    metrics: str | Sequence[str] | None = None,
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
    answers: str | Path | None = None,
    sources: str | Sequence[str] | None = None,
    training_data: Sequence[str] | None = None,
) -> Report:
    """Score a run on tasks.

    Every query ranks the whole gallery of its task, exactly; items that tie with a positive rank above it. Items of the
    run that no task needs are ignored and counted in the provenance.

    A part of the split (``limit``, ``allow_missing``, or a run with images that ``encode`` skipped as unreadable) is
    scored as if it were the whole split. Its numbers are higher than those on the whole split: every form of the report
    names the part, leaderboards refuse it, and it compares only with reports on the same part.

    ``sources`` replaces the positives of every task, for the queries of the task and within its gallery and folds.
    Tasks without positives are skipped. Every form of the report names the sources, leaderboards refuse it, and it
    compares only with reports on the same labels.

    Args:
        run: embeddings, scores or rankings, as returned by :func:`cxc_eccv.runs.load.load_run`.
        tasks: ``all`` for those that the run and the data allow, or names of tasks (``cxc``) or of their directions
            (``cxc/t2t``).
        metrics: a name or several (``recall_at_k``, ``recall_at_20``, ``median_rank``); None for the default metrics of
            each task, without those that need deeper rankings.
        split: ``validation`` or ``test``.
        data_dir: mirror folder, ``"sample"`` for the embedded sample, a Library, or None for ``CXC_ECCV_DATA``, else
            the download cache.
        seed: seed of the bootstrap.
        confidence: confidence level of the intervals; None for no intervals.
        intervals: ``bootstrap`` over images, which keeps the captions of an image together; ``binomial`` for Wilson's
            interval of recalls, which assumes independent queries; ``binomial_images`` for the same with the number of
            images instead of queries, as in some papers; or ``none``. Other metrics always use the bootstrap.
        unjudged: how Entail@K treats retrieved pairs without a label: ``not_entailed`` counts them as 0, ``leave_out``
            takes the fraction among labelled pairs; a function of image ids and caption ids, a table with ``image_id``,
            ``caption_id`` and ``label``, or a ``ClassifierJudge`` labels them. Results state policy and coverage.
        per_query: keep the value of every query in ``report.per_query``, and the run, so that ``report.save`` writes
            what comparisons and the HTML page need.
        similarity: ``cosine`` or ``dot``, for embeddings; None for the similarity in the file, or cosine. The
            provenance records the similarity and who chose it.
        block_size: queries that a thread scores at once, for embeddings; None for about 80 MB of scores in total.
        progress: show a progress bar when standard error is a terminal.
        device: torch device for embeddings, for example ``cuda``; None for NumPy on the CPU.
        name: name of the model in the report; None for the name in the run.
        limit: score only this many images, the first by id, with their captions.
        allow_missing: score only the items of the split that the run has; not for rankings, as their galleries are not
            known.
        bounds: add to each result the lowest and highest value over all labels of unjudged pairs
            (:attr:`cxc_eccv.types.reported.Result.bounds`), as defined on the page about unjudged pairs.
        bounds_depth: number of items of a query that count as retrieved, and the most new positives of a query, for
            metrics without K; None for 50.
        probabilities: probabilities that an image with its captions entails a caption, which add expected values to the
            bounds: a function of image ids and caption ids, a table with ``image_id``, ``caption_id`` and
            ``probability``, or the path of a Parquet file with these columns. None for those of ``unjudged``, if it is
            a classifier.
        answers: folder or label file of an annotation project that asked about pairs drawn for one of the numbers;
            with bounds and probabilities, that number's bounds get an estimate with an interval.
        sources: sources of labels that define the positives instead of those of each task: ``coco``, ``cxc``, ``eccv``,
            ``entailment``, and names of label files of the library. None for the sources that each task declares.
        training_data: what the model was trained on, for the provenance: ``coco_train``, ``coco_val``, ``flickr30k``,
            ``web``, ``unknown`` or other names; None for what the run says, if it does.

    Returns:
        One result per task, direction and metric; ``report.skipped`` gives the reason for each one left out.

    Raises:
        UnknownName: a task, direction, metric, split or similarity is unknown.
        InvalidOption: an option is out of range, a named task cannot be computed, ``name`` is not a line of text, or
            ``similarity``, ``block_size`` or ``device`` is set for scores or rankings.
        RunError: the run lacks items that a task needs or has unknown items; or rankings are too short for a named
            metric, or for all metrics of a named task. All errors of its ids are raised together, before the pass.
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
        raise MalformedRun(f"{run!r:.60} is not a run; read a file with load_run, or make a run from arrays or dicts")
    if isinstance(run, RankingsRun) and run.corpus is not None:
        raise InvalidOption(
            f"{run.path or 'run'}: ranks images by {run.corpus}, which no task does; use cxc-eccv explain for this file"
        )
    scoring = choose_similarity(run, similarity=similarity, block_size=block_size, device=device)
    check_split(split)
    settings = Settings(seed, confidence, intervals, unjudged, per_query, bounds, bounds_depth, probabilities, answers)
    model: dict[str, Any] = name_model(run, name)
    if trained_on := check_training_data(training_data) if training_data else training_data_of(run):
        model |= {"trained_on": list(trained_on), "trained_on_from": "the caller" if training_data else FROM_CARD}
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    options = {"block_size": block_size, "progress": progress, "device": device}
    with one_blas_thread():  # idle BLAS threads would slow down our threads
        chosen = select(run, tasks, library, split, metrics, limit=limit, allow_missing=allow_missing, sources=sources)
        parts, left_out = chosen.parts, chosen.restriction.facts
        raise_all([*chosen.refused, *find_faults(run, parts, library)])
        ranges: BoundsOfNeeds | None = None
        if settings.bounds:
            needs = [need for part in parts for need in part.needs]
            ranges = BoundsOfNeeds(run, needs, library, split, settings.depth, chosen.sources)
        measure(run, parts, scoring["similarity"], ranges, **options)
        facts = {"run": describe_run(run, parts), **scoring, **model, **({"restriction": left_out} if left_out else {})}
        if chosen.sources:
            ordered = sorted(parts, key=lambda part: part.task.of_label_files)  # known tasks first
            repeats = find_repeats((part.key, part.name, part.needs[0].judged) for part in ordered)
            facts |= {"labels": describe_sources(chosen.sources, library, split) | {"repeats": repeats}}
        report = make_report(parts, library, split, settings, bounds=ranges, skipped=chosen.skipped, **facts)
    _refuse_empty_tasks(report, tasks)
    if isinstance(settings.answers, Answers):
        settings.answers.refuse_unused(report, split)
    return replace(report, origin=(run, library)) if per_query else report


def check_request(
    run: Run | Sequence[str],
    tasks: str | Sequence[str] = "all",
    *,
    metrics: str | Sequence[str] | None = None,
    split: str = "test",
    data_dir: str | Path | Library | None = None,
    limit: int | None = None,
    allow_missing: bool = False,
    sources: str | Sequence[str] | None = None,
    similarity: str | None = None,
    device: str | None = None,
    block_size: int | None = None,
    name: str | None = None,
    training_data: Sequence[str] | None = None,
    **settings: Any,  # noqa: ANN401 - those of evaluate
) -> None:
    """Raise the errors of options, raw files and ids that :func:`evaluate` would raise before it ranks.

    ``run`` is the run, or the sides that a model will encode.
    """
    check_split(split)
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    known = run if isinstance(run, Run) else _make_ones(run, library, split)
    choose_similarity(known, similarity=similarity, block_size=block_size, device=device)
    name_model(known, name)
    check_training_data(training_data or ())
    Settings(**{option: value for option, value in settings.items() if option != "progress"})
    chosen = select(known, tasks, library, split, metrics, limit=limit, allow_missing=allow_missing, sources=sources)
    raise_all([*chosen.refused, *(find_faults(run, chosen.parts, library) if isinstance(run, Run) else ())])


def _make_ones(sides: Sequence[str], library: Library, split: str) -> EmbeddingsRun:
    """A run of all images or captions of the split, or both, before a model has encoded them."""
    content = library.karpathy(split)
    ids = {"images": content.image_ids, "captions": content.caption_ids}
    ones = {side: Embeddings(ids[side], np.ones((ids[side].size, 1), np.float32)) for side in sides}
    return EmbeddingsRun(ones.get("images"), ones.get("captions"))


def _refuse_empty_tasks(report: Report, tasks: str | Sequence[str]) -> None:
    """Raise an error for every named task of which nothing was computed."""
    if tasks == "all":
        return
    computed = {result.task for result in report.results}
    reasons = {key: reason for key, reason in report.skipped.items() if key.partition("/")[0] not in computed}
    names = dict.fromkeys(key.partition("/")[0] for key in reasons)
    by_task = {name: [reason for key, reason in reasons.items() if key.startswith(f"{name}/")] for name in names}
    raise_all(
        RunTooShallow(f"{name} cannot be computed: " + "; ".join(dict.fromkeys(why))) for name, why in by_task.items()
    )


def evaluate_rankings(
    i2t: Mapping[Any, ArrayLike] | None = None,
    t2i: Mapping[Any, ArrayLike] | None = None,
    tasks: str | Sequence[str] = "all",
    **options: Any,  # noqa: ANN401 - those of evaluate
) -> Report:
    """Score rankings in dicts, the first two arguments of ``compute_all_metrics`` in the eccv_caption package.

    Its ``coco_1k``, ``coco_5k`` and ``eccv`` metrics are those of ``coco_1k``, ``coco_5k`` and ``eccv_caption`` here,
    its ``cxc`` recalls those of ``cxc_rated``. Metrics that need deeper rankings are skipped, as the report says.

    Args:
        i2t: image id to ranked caption ids, best first.
        t2i: caption id to ranked image ids.
        tasks: as in :func:`evaluate`.
        **options: as in :func:`evaluate`.

    Raises:
        RunError: a dict is empty; ids are not integers, repeated or unknown; queries are missing; or rankings are too
            short for a named metric or task.

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
    ranked: Mapping[str, tuple[Judgments, PositiveRanks]],
    library: Library,
    split: str,
    *,
    settings: Settings | None = None,
    **provenance: Any,  # noqa: ANN401 - recorded as they are
) -> Report:
    """Make a report from ranks, with the default metrics of each task that need only ranks.

    Args:
        ranked: ``task/direction`` to the judgments and the ranks of their positives.
        library: the raw sources of the judgments.
        split: split of the judgments.
        settings: seed, intervals, per-query values; None for the defaults.
        **provenance: further entries of the provenance, for example ``model``.

    Raises:
        UnknownName: a task or split is unknown.

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
        plan = plan_of(task(name), None)
        variants = [variant for variant in plan.parts[direction] if variant.spec.needs == "ranks"]
        need = Ranks(plan.task, direction, judgments, variants)
        need.settle(ranks)
        parts.append(Part(plan, direction, (need,)))
    return make_report(parts, library, split, settings or Settings(), **provenance)


def open_units(
    run: Run, key: str, library: Library, split: str, settings: Settings, sources: Sequence[str] | None = None
) -> Units:
    """The units of the number ``task/direction/metric`` of a run, before people are asked about some of them.

    The probabilities are those of the settings.
    """
    part, _, metric = key.rpartition("/")
    if part.count("/") != 1:
        raise InvalidOption(f"number {key!r}: give task/direction/metric, such as coco_5k/t2i/recall_at_1")
    with one_blas_thread():
        chosen = select(run, [part], library, split, [metric], sources=sources)
        raise_all([*chosen.refused, *find_faults(run, chosen.parts, library)])
        needs = [need for each in chosen.parts for need in each.needs]
        bounds = BoundsOfNeeds(run, needs, library, split, settings.depth, chosen.sources)
        measure(run, chosen.parts, choose_similarity(run, similarity=None)["similarity"], bounds)
    for each in chosen.parts:
        for variant, need in each.needs_of_variants:
            if each.key == part and variant.label == metric:
                return bounds.units(need, variant, settings.on(library, split, each.task.collection))
    raise InvalidOption(f"{key}: {part} has no metric {metric}")
