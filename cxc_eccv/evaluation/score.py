"""From what was measured to results: per-query values first, then their mean or median, then the interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.evaluation.intervals import ClusterBootstrap, Draws, interval, wilson
from cxc_eccv.evaluation.measure import Measured
from cxc_eccv.evaluation.select import Variant
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.evaluation.top_k import Unjudged, judged_share, policy_name, policy_of, queries_with_judged, tied_queries
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.collection import COCO, Collection
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, Result, TopK, positions_of

__all__ = ["Scored", "Scorer", "Values", "correlations", "images_behind", "values_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One metric of one direction, in full.

    Attributes:
        variant: the metric and its parameters.
        result: the row of the report.
        values: the value of each query.
        clusters: (Q,) image behind each query.
        samples: (S,) bootstrap samples of the aggregate, or None.
    """

    variant: Variant
    result: Result
    values: Values
    clusters: IntArray
    samples: FloatArray | None


class Scorer:
    """Turns what was measured into rows of a report.

    Args:
        library: says which image stands behind a caption.
        split: of the judgments.
        settings: of the report.
    """

    def __init__(self, library: Library, split: str, settings: Settings) -> None:
        self._library, self._split, self._settings = library, split, settings
        self._draws = None if settings.level is None else Draws(settings.seed)

    def direction(self, measured: Measured) -> list[Scored]:
        """All metrics of one direction of one task that were measured, in their order."""
        request = measured.request
        known = [variant for variant in request.variants if variant.label in measured.inputs]
        values = [values_of(one, measured.inputs[one.label], self._settings.unjudged) for one in known]
        clusters = [self._clusters(measured, one.query_ids) for one in values]
        samples = self._samples(known, values, clusters)
        scored = []
        for variant, one, images, draws in zip(known, values, clusters, samples, strict=True):
            value = float(np.median(one.values) if variant.spec.aggregate == "median" else one.values.mean())
            row = Result(
                request.task.name,
                request.part,
                variant.label,
                value,
                one.values.size,
                ties=one.ties,
                coverage=one.coverage,
                parameters=one.parameters,
            )
            row = self._with_interval(row, draws, (one.values, images) if variant.spec.binary else None)
            scored.append(Scored(variant, row, one, images, draws))
        return scored

    def whole(self, task: str, spec: Spec, directions: Sequence[Sequence[Scored]]) -> Result:
        """A metric over all directions of one task, for example RSUM; their samples were drawn together."""
        parts = [row for rows in directions for row in rows if row.variant.label in spec.inputs]
        value = float(spec.function(np.array([part.result.value for part in parts])))
        draws = [part.samples for part in parts if part.samples is not None]
        n_queries, ties = (sum(getattr(rows[0].result, name) for rows in directions) for name in ("n_queries", "ties"))
        row = Result(task, "", spec.name, value, n_queries, ties=ties)
        return self._with_interval(row, spec.function(np.stack(draws, axis=-1)) if draws else None)

    def _clusters(self, measured: Measured, query_ids: IntArray) -> IntArray:
        request = measured.request
        return images_behind(query_ids, self._library, self._split, request.direction, request.task.collection)

    def _with_interval(
        self, row: Result, samples: FloatArray | None, binary: tuple[FloatArray, IntArray] | None = None
    ) -> Result:
        level = self._settings.level
        if samples is None or level is None:
            return row
        if binary is not None and self._settings.intervals != "bootstrap":
            values, images = binary
            by_image = self._settings.intervals == "binomial_images"
            low, high = wilson(values, level, np.unique(images).size if by_image else None)
        else:
            low, high = interval(samples, level)
        return replace(row, low=low, high=high)

    def _samples(
        self, variants: Sequence[Variant], values: Sequence[Values], clusters: Sequence[IntArray]
    ) -> Iterator[FloatArray | None]:
        if self._draws is None:
            yield from (None for _ in variants)
            return
        groups: dict[int, list[int]] = {}
        for place, one in enumerate(values):
            groups.setdefault(id(one.query_ids), []).append(place)
        found: dict[int, Any] = {}
        for places in groups.values():
            bootstrap = ClusterBootstrap(clusters[places[0]], self._draws)
            averaged = [place for place in places if variants[place].spec.aggregate == "mean"]
            if averaged:
                stacked = np.stack([values[place].values for place in averaged], axis=1)
                found |= dict(zip(averaged, bootstrap.means(stacked), strict=True))
            found |= {place: bootstrap.medians(values[place].values) for place in places if place not in found}
        yield from (found[place] for place in range(len(variants)))


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """One metric's value for each query.

    Attributes:
        query_ids: (Q,) int64.
        values: (Q,) float64.
        best_ranks: (Q,) rank of the best positive, 0 where none was found; None where no positives are ranked.
        ties: queries that the tie rule touched.
        coverage: share of judged among the needed pairs, or None where every pair is judged.
        parameters: what the metric was called with.
    """

    query_ids: IntArray
    values: FloatArray
    best_ranks: IntArray | None
    ties: int
    coverage: float | None
    parameters: dict[str, Any]


def values_of(variant: Variant, inputs: tuple[Any, ...], unjudged: Unjudged) -> Values:
    """Call a metric.

    Args:
        variant: the metric.
        inputs: its leading arguments.
        unjudged: policy for retrieved pairs without a label, where the metric has one.

    Raises:
        DataError: no query at all has a labelled pair, with ``leave_out``.

    Example:
        >>> from cxc_eccv.metrics.mrr import SPEC
        >>> values_of(Variant(SPEC, {}), (PositiveRanks.of([[2]]),), "not_entailed").values.tolist()
        [0.5]
    """
    if variant.spec.needs == "top_k":
        return _of_top_items(variant, inputs[0], inputs[1], unjudged)
    measured = inputs[0]
    values = variant.spec.function(measured, **variant.parameters)
    best = None
    if isinstance(measured, PositiveRanks):
        best = np.where(np.diff(measured.indptr) > 0, measured.best, 0)
    tied = int(np.count_nonzero(measured.ties))
    return Values(measured.query_ids, values, best, tied, None, dict(variant.parameters))


def _of_top_items(variant: Variant, top: TopK, judgments: Judgments, unjudged: Unjudged) -> Values:
    k = variant.parameters["k"]
    coverage, tied = judged_share(top, judgments, k), tied_queries(top, judgments, k)
    parameters, options = dict(variant.parameters), variant.spec.accepted({"unjudged": policy_of(unjudged)})
    if options:
        parameters["unjudged"] = policy_name(unjudged)
    if options.get("unjudged") == "leave_out":
        n_queries = top.query_ids.size
        top, judgments = queries_with_judged(top, judgments, k)
        parameters["queries_left_out"] = n_queries - top.query_ids.size
        if not top.query_ids.size:
            raise DataError(f"{variant.label}: no query has a labelled pair among its top {k}; choose another policy")
    values = variant.spec.function(top, judgments, **variant.parameters, **options)
    return Values(top.query_ids, values, None, tied, coverage, parameters)


def images_behind(
    query_ids: IntArray, library: Library, split: str, direction: str, collection: Collection = COCO
) -> IntArray:
    """(Q,) image id of each query: its own id, or that of the image a caption was written for.

    Args:
        query_ids: (Q,) ids of images or captions.
        library: the raw sources.
        split: where the captions are.
        direction: decides whether queries are images (``i2t``, ``i2i``) or captions.
        collection: whose images and captions they are.

    Example:
        >>> library = Library("sample")
        >>> captions = library.captions("test")
        >>> ids = captions["caption_id"].to_numpy()
        >>> bool((images_behind(ids, library, "test", "t2i") == captions["image_id"].to_numpy()).all())
        True
    """
    if direction.startswith("i"):
        return query_ids
    content = collection.content(library, split)
    return content.caption_image_ids[positions_of(query_ids, content.caption_ids)[0]]


def correlations(measured: Measured, settings: Settings) -> tuple[list[Result], dict[str, str]]:
    """Results of one kind of rated pairs, and why some are lacking.

    A metric that gives samples is reported as their mean, with the percentile interval of the samples, and as their
    standard deviation (ddof 0) under its name and ``_std``. A model whose similarities are all equal has no rank
    correlation.

    Args:
        measured: with rated pairs and similarities.
        settings: seed, and confidence of the intervals.
    """
    results: list[Result] = []
    reasons: dict[str, str] = {}
    for variant in measured.request.variants:
        options = variant.spec.accepted({"seed": settings.seed})
        try:
            values = variant.spec.function(*measured.inputs[variant.label], **variant.parameters, **options)
        except MalformedRun as error:
            reasons[f"{measured.request.key}/{variant.label}"] = str(error)
        else:
            results += _results(measured, variant, values, settings)
    return results, reasons


def _results(measured: Measured, variant: Variant, values: FloatArray, settings: Settings) -> list[Result]:
    request = measured.request
    n_queries = int(np.unique(measured.inputs[variant.label][0].query_ids).size)
    parameters = dict(variant.parameters) | ({"n_samples": values.size} if values.ndim else {})
    row = Result(request.task.name, request.part, variant.label, float(values.mean()), n_queries, parameters=parameters)
    if not values.ndim:
        return [row]
    low, high = (None, None) if settings.level is None else interval(values, settings.level)
    spread = replace(row, metric=f"{variant.label}_std", value=float(values.std()))
    return [replace(row, low=low, high=high), spread]
