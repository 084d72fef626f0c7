"""From what was measured to a report, with its provenance."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import cxc_eccv
from cxc_eccv.evaluation.measure import Measured
from cxc_eccv.evaluation.report_files import per_query_table
from cxc_eccv.evaluation.run_ids import Asked, ids_used
from cxc_eccv.evaluation.score import Scored, Scorer, correlations
from cxc_eccv.evaluation.select import plan_of
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.ranking.scan import workers
from cxc_eccv.ranking.scores import refuse_embedding_options, similarity_of, torch_on
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.runs.run import SIDES
from cxc_eccv.sources.library import Library
from cxc_eccv.types import PositiveRanks, Report, Result, positions_of

__all__ = ["provenance_of", "report_of_measured", "run_facts", "scoring_of"]

TIED_SHARE = 0.1

_Part = list[Scored] | tuple[list[Result], dict[str, str]]


def report_of_measured(
    measured: Sequence[Measured],
    library: Library,
    split: str,
    settings: Settings,
    *,
    metrics: Sequence[str] | None = None,
    skipped: Mapping[str, str] | None = None,
    **provenance: Any,  # noqa: ANN401 - recorded as they are
) -> Report:
    """Score what was measured and report it.

    Args:
        measured: one entry per part of a task.
        library: the raw sources the judgments came from.
        split: of the judgments.
        settings: seed, intervals, policies.
        metrics: what the user named, or None; a metric that was named and cannot be computed is an error.
        skipped: task or task/part to the reason why it is not among ``measured``.
        **provenance: further entries of the provenance, for example ``model``.

    Raises:
        RunTooShallow: rankings end too early for a metric that was named.
    """
    _warn_of_ties(measured)
    scorer = Scorer(library, split, settings)
    results: list[Result] = []
    scored: list[Scored] = []
    reasons = dict(skipped or {})
    parts = _of_parts(measured, scorer, settings, named=metrics is not None)
    for name in dict.fromkeys(one.request.task.name for one in measured):
        own = [(one, part) for one, part in zip(measured, parts, strict=True) if one.request.task.name == name]
        rows, values, lacking = _of_task(own, scorer, metrics)
        results += rows
        scored += values
        reasons |= lacking
    tasks = {one.request.task.name: one.request.task for one in measured}.values()
    labels = {name: fact for task in tasks for name, fact in task.facts(library, split).items()}
    facts = provenance_of(library, split=split, **settings.facts, **labels, **provenance)
    table = per_query_table(scored) if settings.per_query else None
    return Report(tuple(results), reasons, facts, table)


def _of_parts(measured: Sequence[Measured], scorer: Scorer, settings: Settings, *, named: bool) -> list[_Part]:
    """What each part scores, computed side by side; the linear algebra library is held to one thread meanwhile."""
    for one in measured:
        if one.errors and named:
            raise next(iter(one.errors.values()))

    def score(one: Measured) -> _Part:
        rated = one.request.part in one.request.task.rated
        return correlations(one, settings) if rated else scorer.direction(one)

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers()) as pool:
        return list(pool.map(score, measured))


def _of_task(
    parts: Sequence[tuple[Measured, _Part]], scorer: Scorer, metrics: Sequence[str] | None
) -> tuple[list[Result], list[Scored], dict[str, str]]:
    """Rows of one task, their values, and why it lacks some."""
    results: list[Result] = []
    scored: dict[str, list[Scored]] = {}
    reasons: dict[str, str] = {}
    for one, part in parts:
        hidden = {variant.label for variant in one.request.variants if not variant.shown}
        reasons |= {f"{one.request.key}/{label}": str(e) for label, e in one.errors.items() if label not in hidden}
        if isinstance(part, tuple):
            rows, lacking = part
            results += rows
            reasons |= lacking
        else:
            scored[one.request.part] = part
            results += [row.result for row in part if row.variant.shown]
    task = parts[0][0].request.task
    for spec in plan_of(task, metrics).whole:
        lacks = _lacking(spec, task.directions, scored)
        if lacks:
            reasons[f"{task.name}/{spec.name}"] = f"needs {' and '.join(lacks)} too"
        else:
            results.append(scorer.whole(task.name, spec, list(scored.values())))
    return results, [row for rows in scored.values() for row in rows if row.variant.shown], reasons


def _lacking(spec: Spec, directions: Iterable[str], scored: Mapping[str, Sequence[Scored]]) -> list[str]:
    """Directions, or scores of a direction, that a metric over the whole task would need."""
    lacking = []
    for direction in directions:
        if direction not in scored:
            lacking.append(direction)
            continue
        labels = {row.variant.label for row in scored[direction]}
        lacking += [f"{direction}/{label}" for label in spec.inputs if label not in labels]
    return lacking


def _warn_of_ties(measured: Iterable[Measured]) -> None:
    """Say so when a model gives many items the same score; a few equal captions are no cause for alarm."""
    for one in measured:
        for ranks, *_rest in list(one.inputs.values())[:1]:
            if not isinstance(ranks, PositiveRanks):
                continue
            decided = int(np.count_nonzero(ranks.ties > TIED_SHARE * ranks.n_gallery))
            if decided > TIED_SHARE * ranks.ties.size:
                warnings.warn(
                    f"{one.request.key}: {decided} of {ranks.ties.size} queries are decided by ties: more than "
                    f"{TIED_SHARE:.0%} of the gallery scores exactly as high as a positive, and each of these items "
                    "counts as ranked above it",
                    stacklevel=4,
                )


def provenance_of(library: Library, **entries: Any) -> dict[str, Any]:  # noqa: ANN401 - recorded as they are
    """Versions and data of a report; no date and no machine, so that equal inputs give equal reports.

    Raw files that are not the catalog's stand under ``modified`` of ``data``; without any there is no such entry.

    Args:
        library: the raw sources, after they were read.
        **entries: further entries, for example ``run`` and ``seed``.

    Example:
        >>> provenance_of(Library("sample"), seed=0)["data"]["edition"]
        'sample'
    """
    modified = library.modified_files()
    return {
        "package": {"name": "cxc_eccv", "version": cxc_eccv.__version__},
        "numpy": np.__version__,
        "data": {
            "edition": library.edition,
            "version": library.catalog.version,
            "fingerprint": library.fingerprint(),
            "files": library.files_used(),
            **({"modified": modified} if modified else {}),
        },
        **entries,
    }


def run_facts(run: Run, asked: Iterable[Asked]) -> dict[str, Any]:
    """What a report says of the run: kind, file, hash, sizes, and how many of its items no task needed.

    Args:
        run: the model's results.
        asked: what everything computed needs.

    Example:
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> run_facts(EmbeddingsRun(None, Embeddings([1, 2], np.eye(2))), [])["captions"]
        {'count': 2, 'dimensions': 2, 'outside_the_tasks': 2}
    """
    needed, facts = list(asked), run.facts()
    for side in SIDES:
        if side in facts:
            used = positions_of(run.ids(side), ids_used(side, needed))[1]
            facts[side] = {**facts[side], "outside_the_tasks": int((~used).sum())}
    return facts


def scoring_of(
    run: Run, *, similarity: str | None, block_size: int | None = None, device: str | None = None
) -> dict[str, str | None]:
    """By which similarity a run is scored, and who said so; None for both where it is no matter of vectors.

    Args:
        run: the model's results.
        similarity: what the caller asks for, or None.
        block_size: likewise.
        device: likewise.

    Raises:
        UnknownName: no such similarity.
        InvalidOption: an option of embeddings, and the run has scores or rankings; or there is no such device.

    Example:
        >>> from cxc_eccv.types import Embeddings
        >>> run = EmbeddingsRun(None, Embeddings([1], [[1.0]]), similarity="dot")
        >>> scoring_of(run, similarity=None)
        {'similarity': 'dot', 'similarity_from': 'the run'}
    """
    if not isinstance(run, EmbeddingsRun):
        refuse_embedding_options(run, similarity=similarity, block_size=block_size, device=device)
        return {"similarity": None, "similarity_from": None}
    chosen = similarity_of(run, similarity)
    if device is not None:
        torch_on(device)
    source = "the caller" if similarity else "the run" if run.similarity else "default"
    return {"similarity": chosen, "similarity_from": source}
