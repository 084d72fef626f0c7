"""Makes the report of what was scored, with its provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv import version
from cxc_eccv.evaluation.needs import Scored
from cxc_eccv.evaluation.plan import Plan, PlannedPart
from cxc_eccv.evaluation.policies import Judge
from cxc_eccv.evaluation.request import Request
from cxc_eccv.evaluation.score import ScoredPart
from cxc_eccv.ranking.ranked import collect_ids
from cxc_eccv.report import Report
from cxc_eccv.report.files import PER_QUERY_SCHEMA
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import SIDES, find_positions
from cxc_eccv.types.provenance import DataFacts, ItemFacts, JudgeFacts, Package, Provenance, RunFacts


def per_query_table(scored: Sequence[Scored]) -> pa.Table:
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


def make_report(plan: Plan, scored: Sequence[ScoredPart], facts: Provenance, doubts: Mapping[str, str]) -> Report:
    """The report of what was scored; ``facts`` are those about the run."""
    library, request = plan.library, plan.request
    shown = [row for each in scored for row in each.rows if row.variant.shown]
    reasons = plan.skipped | {key: reason for each in scored for key, reason in each.reasons.items()}
    labels: dict[str, Any] = {}
    for task in {each.part.task.name: each.part.task for each in scored}.values():
        labels |= task.facts(library.split(request.split, task.collection))
    facts = replace(request.record(facts), unjudged=_describe_judge(request, scored), **labels)
    provenance = make_provenance(library, request.split, facts)
    table = per_query_table(shown) if request.per_query else None
    return Report(tuple(row.result for row in shown), reasons, provenance, table, doubts=doubts)


def _describe_judge(request: Request, scored: Sequence[ScoredPart]) -> JudgeFacts | None:
    """Who labelled unjudged pairs, and how many of each part."""
    if not isinstance(request.judge, Judge):
        return None
    pairs = {each.part.key: each.n_asked for each in scored if each.n_asked}
    return replace(request.judge.facts, pairs=pairs)


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


def describe_run(run: Run, parts: Iterable[PlannedPart]) -> RunFacts:
    """Facts about the run: kind, file, hash, sizes, and how many of its items no task needs."""
    needs, facts = [need for part in parts for need in part.needs], run.facts()
    sides: dict[str, ItemFacts] = {}
    for side in SIDES:
        items: ItemFacts | None = getattr(facts, side)
        if items is not None:
            used = find_positions(run.ids(side), collect_ids(side, needs))[1]
            sides[side] = replace(items, outside_the_tasks=int((~used).sum()))
    return replace(facts, images=sides.get("images"), captions=sides.get("captions"))
