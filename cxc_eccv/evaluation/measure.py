"""From a run and requests to what metrics are computed from, in as few passes over the scores as possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.evaluation.select import Request, Variant
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.ranking import ranks_of_run
from cxc_eccv.ranking.lists import FAR, GivenRanks, depths_alone, needed_depth, rows_of, values_at_known_depth
from cxc_eccv.ranking.readers import PlausibleRows, RowReader, TopRows, similarities_of_run, too_shallow
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.types import IntArray, Judgments, PositiveRanks, RatedPairs

__all__ = ["Measured", "Ranks", "measured", "measured_ranks", "ranks_alone", "surely_too_shallow", "unsettled"]


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What the metrics of one request are computed from.

    Attributes:
        request: the part of a task.
        inputs: label of each metric to the leading arguments of its function.
        errors: label of each metric that the run's rankings end too early for, to the error that says where.
    """

    request: Request
    inputs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    errors: Mapping[str, RunTooShallow] = field(default_factory=dict)


def measured(
    run: Run,
    requests: Sequence[Request],
    *,
    similarity: str | None,
    block_size: int | None,
    progress: bool,
    device: str | None = None,
) -> list[Measured]:
    """Measure a run, in the order of the requests.

    Args:
        run: embeddings, scores or rankings.
        requests: what to measure.
        similarity: ``cosine`` or ``dot`` of embeddings, else None.
        block_size: queries that one thread scores at once, or None.
        progress: show a bar when standard error is a terminal.
        device: a torch device to score on, or None for NumPy.

    Raises:
        MissingIds: the run lacks items that a task needs.
        InvalidOption: an option out of range.
    """
    readings = {request.key: _readings(request, apart=run.kind == "rankings") for request in requests}
    readers: dict[str, list[RowReader]] = {}
    for request in requests:
        if readings[request.key]:
            readers.setdefault(request.direction, []).extend(readings[request.key])
    judgments = {
        request.key: (request.direction, cast("Judgments", request.judged["ranks"]))
        for request in requests
        if "ranks" in request.judged
    }
    options = {"similarity": similarity, "block_size": block_size, "progress": progress, "device": device}
    ranks = ranks_of_run(run, judgments, readers=readers, **options)
    found = []
    for request in requests:
        if "rated_pairs" in request.judged:
            found.append(_correlated(run, request, similarity))
        else:
            found.append(_joined(request, ranks.get(request.key), readings[request.key]))
    return found


def surely_too_shallow(run: Run, request: Request) -> dict[str, RunTooShallow]:
    """Label of each metric that the mere lengths of a run's rankings rule out, and the error that says where.

    Others may turn out to lack items too, once the rankings are read.

    Args:
        run: embeddings and scores rank everything.
        request: what would be measured, with queries that the run has.
    """
    if not isinstance(run, RankingsRun):
        return {}
    errors: dict[str, RunTooShallow] = {}
    if "ranks" in request.judged:
        judgments = cast("Judgments", request.judged["ranks"])
        given, folds = depths_alone(run, request.direction, judgments), judgments.gallery_folds is not None
        errors = unsettled(given, judgments, [v for v in _of_need(request, "ranks") if folds or _is_limited(v, given)])
    for reading in _readings(request, apart=True):
        rows = rows_of(run, request.direction, reading.query_ids)
        needs, held = reading.reader.needs, run.depths(request.direction)[rows]
        if (short := np.flatnonzero(held < needs)).size:
            where = reading.query_ids[short[0]], needs[short[0]], held[short[0]]
            errors |= dict.fromkeys(reading.labels, too_shallow(*where, reading.reader.reason))
    return errors


def _is_limited(variant: Variant, given: GivenRanks) -> bool:
    """Whether a metric looks so deep and no deeper, wherever the positives stand."""
    sizes = np.unique(given.ranks.n_positives)
    return bool((needed_depth(variant.spec.function, sizes, **variant.parameters) < FAR).all())


def measured_ranks(request: Request, ranks: Ranks) -> Measured:
    """What ranks say, whatever gave them.

    Args:
        request: with judgments of what was ranked.
        ranks: of their positives.
    """
    variants = _of_need(request, "ranks")
    errors = unsettled(ranks, cast("Judgments", request.judged["ranks"]), variants)
    inputs = {one.label: (ranks_alone(ranks),) for one in variants if one.label not in errors}
    return Measured(request, inputs, errors)


class _Reading:
    """A reader that stops where rankings end too early, and remembers why."""

    def __init__(self, request: Request, need: str, variants: Sequence[Variant]) -> None:
        self.judged, self.labels = request.judged[need], [variant.label for variant in variants]
        self.error: RunTooShallow | None = None
        self.reader: TopRows | PlausibleRows
        if need == "top_k":
            depth = max(variant.parameters["k"] for variant in variants)
            self.reader = TopRows(cast("Judgments", self.judged), depth)
        else:
            looks = dict.fromkeys(look for variant in variants for look in variant.spec.looks)
            self.reader = PlausibleRows(cast("CategoryMatches", self.judged), tuple(looks))
        self.query_ids, self.gallery_ids = self.reader.query_ids, self.reader.gallery_ids
        self.without_self, self.deepest = self.reader.without_self, self.reader.deepest

    def attach(self, row_ids: IntArray, item_ids: IntArray, columns: IntArray, width: int) -> None:
        self.reader.attach(row_ids, item_ids, columns, width)

    def read(self, block: NDArray[Any], start: int) -> None:
        self._unless_too_shallow(self.reader.read, block, start)

    def take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        self._unless_too_shallow(self.reader.take, queries, scores, items)

    @property
    def ended(self) -> bool:
        return self.error is not None

    def _unless_too_shallow(self, read: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401 - as it takes them
        if self.error is None:
            try:
                read(*arguments)
            except RunTooShallow as error:
                self.error = error

    @property
    def inputs(self) -> tuple[Any, ...]:
        result = self.reader.result
        return (result, self.judged) if isinstance(self.judged, Judgments) else (result,)


def _of_need(request: Request, need: str) -> list[Variant]:
    return [variant for variant in request.variants if variant.spec.needs == need]


def _readings(request: Request, *, apart: bool) -> list[_Reading]:
    """One reader for all metrics of a need; or one for each, where some may need more than rankings hold."""
    found = []
    for need in ("top_k", "plausible_hits"):
        variants = _of_need(request, need)
        groups = [[one] for one in variants] if apart else [variants]
        found += [_Reading(request, need, group) for group in groups if group]
    return found


def _joined(request: Request, ranks: Ranks | None, readings: Sequence[_Reading]) -> Measured:
    of_ranks = Measured(request) if ranks is None else measured_ranks(request, ranks)
    inputs, errors = dict(of_ranks.inputs), dict(of_ranks.errors)
    for reading in readings:
        for label in reading.labels:
            if reading.error is None:
                inputs[label] = reading.inputs
            else:
                errors[label] = reading.error
    return Measured(request, inputs, errors)


def _correlated(run: Run, request: Request, similarity: str | None) -> Measured:
    rated = cast("RatedPairs", request.judged["rated_pairs"])
    similarities = similarities_of_run(run, request.direction, rated, similarity=similarity)
    return Measured(request, {one.label: (rated, similarities) for one in request.variants})


Ranks = PositiveRanks | GivenRanks


def ranks_alone(ranks: Ranks) -> PositiveRanks:
    """The ranks without what is known of the depth of the rankings."""
    return ranks.ranks if isinstance(ranks, GivenRanks) else ranks


def unsettled(ranks: Ranks, judgments: Judgments, variants: Sequence[Variant]) -> dict[str, RunTooShallow]:
    """Label of each metric that the rankings end too early for, and the error that says where.

    In folds (COCO 1K) only whole rankings settle anything: how many items of its fold a shorter one holds is chance.

    Args:
        ranks: of a run; those of vectors and scores are always whole.
        judgments: what was ranked.
        variants: the metrics.

    Example:
        >>> from cxc_eccv.evaluation.select import plan_of
        >>> from cxc_eccv.ranking.lists.given import given_ranks
        >>> from cxc_eccv.registry import task
        >>> given, qrels = given_ranks([[30, 10]], [[10]]), Judgments.from_pairs([0], [10, 20, 30], [0], [10])
        >>> list(unsettled(given, qrels, plan_of(task("coco_5k"), None).parts["i2t"]))
        ['recall_at_5', 'recall_at_10']
    """
    if not isinstance(ranks, GivenRanks):
        return {}
    if judgments.gallery_folds is not None and not ranks.complete.all():
        query = np.flatnonzero(~ranks.complete)[0]
        error = RunTooShallow(
            f"folds are cut out of rankings of the whole gallery, {judgments.gallery_ids.size} items; that of query "
            f"{judgments.query_ids[query]} holds {ranks.depths[query]} of the {ranks.ranks.n_gallery[query]} items of "
            "its fold. Rank the whole gallery."
        )
        return dict.fromkeys((variant.label for variant in variants), error)
    errors = {variant.label: _error(ranks, variant) for variant in variants}
    return {label: error for label, error in errors.items() if error is not None}


def _error(given: GivenRanks, variant: Variant) -> RunTooShallow | None:
    try:
        values_at_known_depth(variant.spec.function, given, **variant.parameters)
    except RunTooShallow as error:
        return error
    return None
