"""Makes the report of what was scored, with its provenance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import cxc_eccv
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.plan import Plan, PlannedPart
from cxc_eccv.evaluation.policies import Judge
from cxc_eccv.evaluation.report_files import per_query_table
from cxc_eccv.evaluation.request import Request
from cxc_eccv.evaluation.score import ScoredPart
from cxc_eccv.ranking.ranked import collect_ids
from cxc_eccv.runs import Run
from cxc_eccv.runs.run import check_name, read_record
from cxc_eccv.sources.library import Library
from cxc_eccv.types import SIDES, Report, find_positions
from cxc_eccv.types.provenance import DataFacts, ItemFacts, JudgeFacts, Package, Provenance, RunFacts


def make_report(plan: Plan, scored: Sequence[ScoredPart], facts: Provenance) -> Report:
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
    return Report(tuple(row.result for row in shown), reasons, provenance, table)


def _describe_judge(request: Request, scored: Sequence[ScoredPart]) -> JudgeFacts | None:
    """Who labelled unjudged pairs, and how many of each part."""
    if not isinstance(request.unjudged, Judge):
        return None
    pairs = {each.part.key: each.n_asked for each in scored if each.n_asked}
    return replace(request.unjudged.facts, pairs=pairs)


def make_provenance(library: Library, split: str = "", facts: Provenance | None = None) -> Provenance:
    """Versions and data, added to the facts that are known already."""
    data = DataFacts(
        edition=library.edition,
        version=library.catalog.version,
        fingerprint=library.fingerprint(),
        files=library.files_used(),
        modified=library.modified_files(),
    )
    package = Package("cxc_eccv", cxc_eccv.__version__)
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


def name_model(run: Run, name: str | None) -> str | None:
    """The given name of the model, else that of the run, else None."""
    if name is not None:
        check_name("evaluate", name, InvalidOption)
    return run.model if name is None else name


def training_data_of(run: Run) -> tuple[str, ...]:
    """What the record beside an encoded file says that the model was trained on; empty if nothing."""
    facts = None if run.path is None else read_record(run.path)
    return tuple((facts or {}).get("training_data") or ())
