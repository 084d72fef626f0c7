"""Makes the report of what was scored, with its provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv import version
from cxc_eccv.errors import RunTooShallow, raise_all
from cxc_eccv.evaluation.answers import Answers
from cxc_eccv.evaluation.examples import collect_examples
from cxc_eccv.evaluation.metric_inputs import MetricInput, ScoredMetric
from cxc_eccv.evaluation.plan import Plan
from cxc_eccv.evaluation.relabelling import describe_sources, find_repeats
from cxc_eccv.evaluation.request import REQUEST_ENTRIES
from cxc_eccv.evaluation.score import ScoredPart
from cxc_eccv.ranking import Ranked
from cxc_eccv.ranking.ranked import collect_ids
from cxc_eccv.report import Report
from cxc_eccv.report.files import PER_QUERY_SCHEMA
from cxc_eccv.runs import Run
from cxc_eccv.runs.run import find_encoding, read_record
from cxc_eccv.sources.library import Library
from cxc_eccv.types import SIDES, find_positions
from cxc_eccv.types.provenance import (
    DataFacts,
    EncodingFacts,
    ItemFacts,
    LabelFacts,
    Package,
    Provenance,
    RunFacts,
    find_options,
)
from cxc_eccv.types.training_data import FROM_CARD, check_training_data
from cxc_eccv.unjudged.judges import Judge


def per_query_table(scored: Sequence[ScoredMetric]) -> pa.Table:
    """One row per metric and query, in the order of the report.

    ``best_rank`` is the rank of the query's best positive, or null; ``cluster`` is the image of the query, which
    intervals resample; ``fold`` is the query's fold, or null in a task without folds.
    """
    batches = []
    for row in scored:
        if (queries := row.queries) is None:
            continue
        once = pa.array(np.zeros(queries.ids.size, dtype=np.int32))
        named = (row.result.task, row.result.direction, row.result.metric)
        names = [pa.DictionaryArray.from_arrays(once, [name]) for name in named]
        none = pa.nulls(queries.ids.size, pa.int64())
        best = none if queries.best_ranks is None else queries.best_ranks
        folds = none if queries.folds is None else pa.array(queries.folds)
        columns = [pa.array(queries.ids), *names, pa.array(queries.values), best, pa.array(row.images), folds]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=PER_QUERY_SCHEMA))
    return pa.Table.from_batches(batches, schema=PER_QUERY_SCHEMA)


def make_report(
    plan: Plan, scored: Sequence[ScoredPart], doubts: Mapping[str, str], ranker: Ranked | None = None
) -> Report:
    """The report of what was scored, with examples of queries; without a ``ranker`` there were only ranks.

    Raises an error for every named task of which nothing was computed, and for answers about no number of the report.
    """
    shown = list(chain.from_iterable(each.shown for each in scored))
    reasons = dict(plan.skipped)
    for each in scored:
        reasons |= each.reasons
    table = per_query_table(shown) if plan.request.per_query else None
    provenance = describe_evaluation(plan, scored, ranker)
    bins = {each.part.key: each.rating_bins for each in scored if each.rating_bins}
    results = tuple(row.result for row in shown)
    report = Report(results, reasons, provenance, table, doubts=doubts, similarity_by_rating=bins)
    if ranker is None:
        return report
    _refuse_empty_tasks(report, plan.request.tasks)
    if isinstance(plan.request.answers, Answers):
        plan.request.answers.refuse_unused(report, plan.request.split)
    return replace(report, examples=collect_examples(ranker, plan, report)) if plan.request.per_query else report


def _refuse_empty_tasks(report: Report, tasks: str | Sequence[str]) -> None:
    """Raise an error for every named task of which nothing was computed."""
    if tasks == "all":
        return
    computed = {result.task for result in report.results}
    by_task: dict[str, list[str]] = {}
    for key, reason in report.skipped.items():
        name, is_part, _ = key.partition("/")
        if name in computed:
            continue
        reasons = by_task.setdefault(name, [])
        if is_part:
            reasons.append(reason)
    raise_all(
        RunTooShallow(f"{name} cannot be computed: " + "; ".join(dict.fromkeys(why))) for name, why in by_task.items()
    )


def describe_evaluation(plan: Plan, scored: Sequence[ScoredPart], ranker: Ranked | None) -> Provenance:
    """All that the numbers were computed from: options, run and its model, part of the split, labels, versions."""
    request = plan.request
    run = None if ranker is None else ranker.run
    scoring = Ranked.scoring if ranker is None else ranker.scoring
    record = {} if run is None or run.path is None else read_record(run.path) or {}
    named = request.training_data
    trained_on = check_training_data(named) if named else tuple(record.get("training_data") or ())
    judge = request.judge
    asked = {each.part.key: each.n_classified for each in scored if each.n_classified}
    facts = Provenance(
        seed=request.seed,
        confidence=request.level,
        intervals="none" if request.level is None else request.intervals,
        bounds_depth=request.depth if request.bounds else None,
        answers=request.answers.facts if isinstance(request.answers, Answers) else None,
        unjudged=replace(judge.facts, pairs=asked) if isinstance(judge, Judge) else None,
        run=RunFacts() if run is None else describe_run(run, plan.inputs, find_encoding(record)),
        similarity=scoring["similarity"],
        similarity_from=scoring["similarity_from"],
        model=run.model if request.name is None and run is not None else request.name,
        trained_on=trained_on,
        trained_on_from=("the caller" if named else FROM_CARD) if trained_on else None,
        restriction=plan.restriction,
        labels=_describe_labels(plan),
        options=find_options(request, REQUEST_ENTRIES),
    )
    of_tasks: dict[str, Any] = {}
    for task in {each.part.task.name: each.part.task for each in scored}.values():
        of_tasks |= task.facts(plan.library.split(request.split, task.collection))
    return make_provenance(plan.library, request.split, replace(facts, **of_tasks))


def _describe_labels(plan: Plan) -> LabelFacts:
    """The labels that replace those of the tasks, and the parts that are alike with them."""
    if not plan.sources:
        return LabelFacts()
    ordered = sorted(plan.parts, key=lambda part: part.task.of_label_files)  # known tasks first
    repeats = find_repeats((part.key, part.name, part.inputs[0].judged) for part in ordered)
    return replace(describe_sources(plan.sources, plan.library.split(plan.request.split)), repeats=repeats)


def make_provenance(library: Library, split: str = "", facts: Provenance | None = None) -> Provenance:
    """Versions and data, added to the facts that are known already."""
    data = DataFacts(
        edition=library.edition,
        version=library.catalog.version,
        fingerprint=library.fingerprint(),
        files=library.files_used(),
        modified=library.modified_files(),
    )
    package = Package("cxc_eccv", version.__version__)
    return replace(facts or Provenance(), package=package, numpy=np.__version__, data=data, split=split)


def describe_run(run: Run, inputs: Sequence[MetricInput[Any, Any]], encoding: EncodingFacts | None = None) -> RunFacts:
    """Facts about the run: kind, file, hash, sizes, how many of its items no task needs, and what made it.

    ``encoding`` is what the record beside the file says; a run that was encoded now knows it.
    """
    facts = run.facts()
    sides: dict[str, ItemFacts] = {}
    for side in SIDES:
        items: ItemFacts | None = getattr(facts, side)
        if items is not None:
            used = find_positions(run.ids(side), collect_ids(side, inputs))[1]
            sides[side] = replace(items, outside_the_tasks=int((~used).sum()))
    return replace(
        facts, images=sides.get("images"), captions=sides.get("captions"), encoding=facts.encoding or encoding
    )
