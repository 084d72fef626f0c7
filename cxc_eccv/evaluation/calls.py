"""The public calls: they turn a run in any form, or ranks, into a report, or a run into its open pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

from cxc_eccv.errors import InvalidOption, raise_all
from cxc_eccv.evaluation.doubts import Evidence, find_doubts
from cxc_eccv.evaluation.make_report import make_report
from cxc_eccv.evaluation.measure import MeasuredPart, find_faults, measure
from cxc_eccv.evaluation.metric_inputs import PassResult, RankInput
from cxc_eccv.evaluation.plan import Plan, PlannedPart, choose_metrics, make_plan
from cxc_eccv.evaluation.request import Fields, Request
from cxc_eccv.evaluation.score import score_parts
from cxc_eccv.metrics.kinds import Variant
from cxc_eccv.ranking import Ranked, ranked
from cxc_eccv.ranking.scores import one_blas_thread
from cxc_eccv.registry import metric_variants, task
from cxc_eccv.report import Report
from cxc_eccv.runs import Run
from cxc_eccv.runs.find_run import GivenRun, find_run
from cxc_eccv.runs.rankings import RankingDict
from cxc_eccv.sources.library import Library
from cxc_eccv.terminal import show_steps
from cxc_eccv.types import Judgments, PositiveRanks
from cxc_eccv.types.ids import check_type
from cxc_eccv.types.provenance import RestrictionFacts


def evaluate(
    run: GivenRun | None = None,
    tasks: str | Sequence[str] = "all",
    *,
    i2t: RankingDict | None = None,
    t2i: RankingDict | None = None,
    direction: str | None = None,
    data_dir: str | Path | Library | None = None,
    progress: bool = True,
    **fields: Unpack[Fields],
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
        run: a model's results: the path of a file that :func:`cxc_eccv.runs.load.load_run` reads, or the run that it
            returns; a dict of arrays named as in a file (``image_ids``, ``image_embeddings``, ...); a dict of
            ``direction`` to its rankings, or, with ``direction``, the rankings of one.
        tasks: ``all`` for those that the run and the data allow, or names of tasks (``cxc``) or of their directions
            (``cxc/t2t``).
        i2t: in place of a run, image id to ranked caption ids, best first, or to ``{caption id: score}``, higher is
            better. Lists may be cut short: metrics that need deeper ones are skipped, as the report says.
        t2i: caption id to ranked image ids, or to ``{image id: score}``.
        direction: of a dict or a file that does not state it: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        data_dir: mirror folder, ``"sample"`` for the embedded sample, a Library, or None for ``CXC_ECCV_DATA``, else
            the download cache.
        progress: show a progress bar when standard error is a terminal.
        **fields: the options below, fields of a :class:`cxc_eccv.evaluation.Request`.

    Keyword Args:
        metrics: a name or several (``recall_at_k``, ``recall_at_20``, ``median_rank``); None for the default metrics of
            each task, without those that need deeper rankings.
        split: ``validation`` or ``test``.
        seed: seed of the bootstrap.
        confidence: confidence level of the intervals; None for no intervals.
        intervals: ``bootstrap`` over images, which keeps the captions of an image together; ``binomial`` for Wilson's
            interval of recalls, which assumes independent queries; ``binomial_images`` for the same with the number of
            images instead of queries, as in some papers; or ``none``. Other metrics always use the bootstrap.
        unjudged: how Entail@K treats retrieved pairs without a label: ``not_entailed`` counts them as 0, ``leave_out``
            takes the fraction among labelled pairs. None for the labels of ``judge``, else ``not_entailed``. Results
            state policy and coverage.
        judge: who answers for pairs without a label: a function of image ids and caption ids to probabilities that the
            image with its captions entails the caption, a table with ``image_id``, ``caption_id`` and ``probability``
            (or ``label``), the path of its file (.parquet, .csv, .jsonl), or a ``ClassifierJudge``. Entail@K counts its
            labels, from a probability of one half on; with bounds, its probabilities give expected values.
        per_query: keep the value of every query in ``report.per_query``, and some queries with what the run retrieves
            in ``report.examples``, which comparisons and the HTML page need.
        similarity: ``cosine`` or ``dot``, for embeddings; None for the similarity in the file, or cosine. The
            provenance records the similarity and who chose it.
        block_size: queries that a thread scores at once, for embeddings; None for about 80 MB of scores in total.
        device: torch device for embeddings, for example ``cuda``; None for NumPy on the CPU.
        name: name of the model in the report; None for the name in the run.
        limit: score only this many images, the first by id, with their captions.
        allow_missing: score only the items of the split that the run has; of rankings, which must be of i2t or t2i
            alone, only the queries, as their galleries are not known.
        missing: ``zero`` counts queries without results, for rankings, as 0 in metrics whose worst value is 0, as
            trec_eval -c does; others are skipped. None refuses such rankings. Leaderboards refuse the report.
        bounds: add to each result the lowest and highest value over all labels of unjudged pairs
            (:attr:`cxc_eccv.types.reported.Result.bounds`), as defined on the page about unjudged pairs.
        bounds_depth: number of items of a query that count as retrieved, and the most new positives of a query, for
            metrics without K; None for 50.
        answers: folder or label file of an annotation project that asked about pairs drawn for one of the numbers;
            with bounds and a judge, that number's bounds get an estimate with an interval.
        sources: sources of labels that define the positives instead of those of each task: ``coco``, ``cxc``, ``eccv``,
            ``entailment``, and names of labels of the library. None for the library's plain tables of labels, else
            for the sources that each task declares.
        training_data: what the model was trained on, for the provenance: ``coco_train``, ``coco_val``, ``flickr30k``,
            ``web``, ``unknown`` or other names; None for what the run says, if it does.

    Returns:
        One result per task, direction and metric; ``report.skipped`` gives the reason for each one left out.

    Raises:
        UnknownName: a task, direction, metric, split or similarity is unknown.
        InvalidOption: an option is out of range, a named task cannot be computed, ``name`` is not a line of text, or
            ``similarity``, ``block_size`` or ``device`` is set for scores or rankings.
        RunError: a dict is empty, or its ids are no whole numbers or repeated; the run lacks items that a task needs
            or has unknown items; or rankings are too short for a named
            metric, or for all metrics of a named task. All errors of its ids are raised together, before the pass.
        DataError: a raw file is missing or malformed.

    Example:
        >>> split = Library("sample").split("test")
        >>> lists = dict.fromkeys(split.caption_ids.tolist(), split.image_ids)
        >>> report = evaluate(t2i=lists, tasks="coco_5k", data_dir="sample")
        >>> round(report.scores["coco_5k/t2i/recall_at_1"], 4), report.skipped["coco_5k/i2t"]
        (0.0167, 'the run has no i2t rankings')

        >>> import numpy as np
        >>> vectors = np.random.default_rng(0).standard_normal((split.caption_ids.size, 8))
        >>> texts = {"caption_ids": split.caption_ids, "caption_embeddings": vectors}
        >>> report = evaluate(texts, "cxc", data_dir="sample")
        >>> [result.key for result in report.results][:2], report.skipped["cxc/i2t"]
        (['cxc/t2t/recall_at_1', 'cxc/t2t/recall_at_5'], 'the run has no images')
    """
    if isinstance(tasks, Mapping):
        raise InvalidOption("tasks is a dict; two dicts of rankings need names: evaluate(i2t={...}, t2i={...})")
    run = find_run(run, i2t=i2t, t2i=t2i, direction=direction)
    return evaluate_request(run, Request(tasks=tasks, **fields), find_library(data_dir), progress=progress)


def find_library(data_dir: str | Path | Library | None) -> Library:
    """The library of a folder; a Library stays itself."""
    if isinstance(data_dir, Library):
        return data_dir
    if data_dir is not None:
        check_type("the data folder", data_dir, (str, Path), "a folder, 'sample', a Library, or None")
    return Library(data_dir)


def evaluate_request(run: Run, request: Request, library: Library, *, progress: bool = True) -> Report:
    """Score a run as a request asks: the stages of :func:`evaluate`, one after the other."""
    # Idle BLAS threads would slow down our threads.
    with one_blas_thread(), show_steps(4, progress=progress) as begin:
        begin("reading labels")
        ranker = ranked(run, request.make_options(progress=progress))
        plan = plan_run(ranker, request, library, progress=progress)
        begin("ranking")
        measured = measure(ranker, plan)
        begin("computing metrics and intervals")
        scored = score_parts(plan, measured)
        doubts = find_doubts(Evidence(run, measured, scored))
        begin("making the report")
        return make_report(plan, scored, doubts, ranker)


def plan_run(ranker: Ranked, request: Request, library: Library, *, progress: bool = False) -> Plan:
    """Plan the evaluation of a run; raises all errors of its ids."""
    run = ranker.run
    if run.corpus is not None:
        raise InvalidOption(
            f"{run.path or 'run'}: ranks images by {run.corpus}, which no task does; use cxc-eccv explain for this file"
        )
    plan = make_plan(request, library, run, progress=progress)
    raise_all(find_faults(ranker, plan))
    return plan


def report_of_ranks(
    ranked: Mapping[str, tuple[Judgments, PositiveRanks]], library: Library, request: Request
) -> Report:
    """Make a report from ranks, with the default metrics of each task that need only ranks.

    Args:
        ranked: ``task/direction`` to the judgments and the ranks of their positives.
        library: the raw sources of the judgments.
        request: split of the judgments, seed, intervals, per-query values, and name of the model.

    Raises:
        UnknownName: a task is unknown.

    Example:
        >>> from cxc_eccv.types import PositiveRanks
        >>> library = Library("sample")
        >>> judgments = task("coco_5k").judgments(library.split("test"), "i2t")
        >>> first = PositiveRanks.of([[1, 2, 3, 4, 5]] * judgments.query_ids.size)
        >>> report = report_of_ranks({"coco_5k/i2t": (judgments, first)}, library, Request(name="ideal"))
        >>> report.scores["coco_5k/i2t/recall_at_1"]
        1.0
    """
    parts = []
    wholes = {}
    for key, (judgments, ranks) in ranked.items():
        name, _, direction = key.partition("/")
        ranked_task = task(name)
        metrics = choose_metrics(ranked_task, None)
        variants = tuple(variant for variant in metrics[direction] if variant.spec.reads == "ranks")
        rank_input = RankInput(ranked_task, direction, judgments, variants)
        part = PlannedPart(ranked_task, direction, metrics[direction], (rank_input,))
        parts.append(MeasuredPart(part, (rank_input.use_ranks(ranks),)))
        wholes[ranked_task.name] = PlannedPart(ranked_task, "", metrics[""])
    plan = Plan(
        request=request,
        library=library,
        parts=[each.part for each in parts],
        wholes=wholes,
        skipped={},
        refused=[],
        splits={},
        restriction=RestrictionFacts(),
        sources=(),
    )
    scored = score_parts(plan, parts)
    doubts = find_doubts(Evidence(None, parts, scored))
    return make_report(plan, scored, doubts)


def measure_request(run: Run, request: Request, library: Library) -> list[tuple[Variant[Any], PassResult[Any]]]:
    """The metrics that a request names and that can be computed, each with what the pass found for it.

    Neither a judge nor anybody else was asked about unjudged pairs.
    """
    with one_blas_thread():
        ranker = ranked(run, request.make_options())
        parts = measure(ranker, plan_run(ranker, request, library))
    metrics = chain.from_iterable(part.metrics for part in parts)
    computed = [(variant, result) for variant, result in metrics if variant.label not in result.errors]
    if not computed:
        raise_all(chain.from_iterable(part.errors.values() for part in parts))
    return computed


def split_key(key: str) -> tuple[str, str]:
    """The part and the metric of a number ``task/direction/metric``, which may be named as they are printed."""
    part, _, metric = key.rpartition("/")
    if part.count("/") != 1:
        raise InvalidOption(f"number {key!r}: give task/direction/metric, such as coco_5k/t2i/recall_at_1")
    task_name, _, direction = part.partition("/")
    spec, variants = metric_variants(metric)
    label = spec.label(**variants[0]) if len(variants) == 1 else metric
    return f"{task(task_name).name}/{direction}", label
