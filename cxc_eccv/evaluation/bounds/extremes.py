"""Lowest and highest values of a metric over all labellings, and its units, one function for each kind of metric.

A unit is what a metric averages, with the open pairs whose labels decide its value. A unit of Entail@K is one retrieved
pair, as the metric is linear in their labels. A unit of Recall@K, MRR and metrics at R is a query with all its open
pairs: these metrics are not linear in labels, so that a query of which only some pairs are labelled would bias them,
however its labels were weighed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.bounds.expected import expect_best, expect_sums, expected_median
from cxc_eccv.evaluation.bounds.retrieved import Flags, Retrieved
from cxc_eccv.judgments.plausible import PlausibleHits
from cxc_eccv.metrics.kinds import HIGHEST_GAIN, PlausibleMetric, RankMetric, Spec, TopMetric, Variant
from cxc_eccv.ranking.cut_rankings import BEYOND_GALLERIES
from cxc_eccv.ranking.ties import find_tied_across
from cxc_eccv.types import Bounds, FloatArray, IntArray, Judgments, PositiveRanks, TopK, find_positions, look_up_gains
from cxc_eccv.types.ids import find_fold_rows
from cxc_eccv.types.judgments import orient

SMALLEST_DEGREE = np.finfo(np.float64).tiny
"""The smallest degree: it counts towards R, and adds nothing to the gain."""

RANDOM_LABELLINGS = 64
"""Random labellings behind the prediction of a metric at R."""

SMALLEST_VARIANCE = 1e-12
"""A variance below this comes from rounding; the value is certain."""


def bound_ranks(variant: Variant[RankMetric], retrieved: Retrieved, probabilities: FloatArray | None = None) -> Bounds:
    """Bounds of a metric of ranks."""
    unjudged = retrieved.within(variant.k)
    expected = None
    if probabilities is not None:
        expected = _expect(variant, retrieved, np.where(retrieved.certain(variant.k), probabilities, 0.0))
    in_sight = unjudged[:, : variant.k or retrieved.depth]
    return _make_bounds(variant, find_rank_extremes(variant, retrieved), in_sight, expected, retrieved.folds)


def find_rank_extremes(variant: Variant[RankMetric], retrieved: Retrieved) -> tuple[FloatArray, FloatArray]:
    """(Q,) lowest and (Q,) highest values of a metric of ranks."""
    if not variant.spec.best_rank:
        return _extremes(map(variant.compute, _worst_and_best(retrieved)))
    # More positives never lower the best rank.
    best = np.minimum(retrieved.first_unjudged(variant.k), retrieved.ranks.best)
    return _extremes(map(variant.compute, (retrieved.ranks, retrieved.with_best(best))))


def _expect(variant: Variant[RankMetric], retrieved: Retrieved, chances: FloatArray) -> float:
    """The expected value of a metric of ranks."""
    spec = variant.spec
    if spec.share is not None:
        return float(expect_sums(partial(spec.share, **variant.parameters), retrieved, chances).mean())
    values, weights = expect_best(variant.compute, retrieved, chances)
    if spec.aggregate == "mean":
        return float((values * weights).sum(1).mean())
    folds = find_fold_rows(retrieved.folds, len(values))
    return float(np.mean([expected_median(values[rows], weights[rows]) for rows in folds]))


def bound_top(
    variant: Variant[TopMetric], top: TopK, judgments: Judgments, depth: int, probabilities: FloatArray | None = None
) -> Bounds:
    """Bounds of a metric of the top K, or of the top R with ``depth`` retrieved items; see :func:`bound_ranks`."""
    spec = variant.spec
    k = variant.k or depth
    unjudged = ~look_up_gains(top, judgments, k, spec.name)[1]
    # For low, only the highest rating matters: nDCG is a linear gain over a convex ideal, so a lower rating of a
    # positive does not lower it further. A tiny degree adds to R and hardly to the gain.
    gains = [HIGHEST_GAIN[spec.gains]]
    if spec.gains == "degrees":
        gains.append(SMALLEST_DEGREE)
    labellings = _label_worst_and_best(top, judgments, k, variant.k or top.depth, gains)
    low, high = _extremes(variant.compute(top, labelled) for labelled in labellings)
    if spec.highest is not None:
        high = np.maximum(high, spec.highest(top, judgments, **variant.parameters))
    expected = None
    if probabilities is not None:
        certain = unjudged & ~find_tied_across(top, judgments, unjudged.shape[1])
        chances = np.where(certain, probabilities[:, : unjudged.shape[1]], 0.0)
        expected = float(spec.expected(top, judgments, **variant.parameters, probabilities=chances).mean())
    return _make_bounds(variant, (low, high), unjudged, expected)


def bound_matches(variant: Variant[PlausibleMetric], hits: PlausibleHits) -> Bounds:
    """Bounds of a metric of plausible matches, both equal to its value, as categories decide every pair."""
    value = variant.spec.average(variant.compute(hits))
    depths = np.zeros(len(hits.n_matches), dtype=np.int64)
    for criterion in variant.spec.criteria:
        n_matches = hits.n_matches[:, hits.criteria.index(criterion)]
        cut = BEYOND_GALLERIES if criterion[1] is None else criterion[1]
        depths = np.maximum(depths, np.minimum(n_matches, cut))
    return Bounds(value, value, 0, int(depths.sum()), value)


def bound_sums(
    function: Callable[[FloatArray], FloatArray], directions: Sequence[Sequence[Bounds | None]]
) -> Bounds | None:
    """Bounds of a sum of other metrics, over the pairs of the deepest metric in each direction."""
    inputs: list[Bounds] = []
    deepest: list[Bounds] = []
    for of_direction in directions:
        known = [each for each in of_direction if each is not None]
        if len(known) < len(of_direction):
            return None
        inputs += known
        deepest.append(max(known, key=lambda each: each.retrieved))
    expected = [each.expected for each in inputs if each.expected is not None]
    return Bounds(
        low=float(function(np.array([each.low for each in inputs]))),
        high=float(function(np.array([each.high for each in inputs]))),
        unjudged=sum(each.unjudged for each in deepest),
        retrieved=sum(each.retrieved for each in deepest),
        expected=float(function(np.array(expected))) if len(expected) == len(inputs) else None,
    )


def _make_bounds(
    variant: Variant[Spec],
    extremes: tuple[FloatArray, FloatArray],
    unjudged: Flags,
    expected: float | None,
    folds: IntArray | None = None,
) -> Bounds:
    low, high = (variant.spec.average(values, folds) for values in extremes)
    return Bounds(low, high, int(unjudged.sum()), unjudged.size, expected)


def _extremes(values: Iterator[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """(Q,) lowest and (Q,) highest values."""
    low = high = next(values)
    for labelled in values:
        low = np.minimum(low, labelled)
        high = np.maximum(high, labelled)
    return low, high


def _worst_and_best(retrieved: Retrieved) -> Iterator[PositiveRanks]:
    """Ranks of the positives under the worst and the best labelling with n more of them, for each n up to D."""
    unjudged = retrieved.within(None)
    further = retrieved.extend()
    order = np.cumsum(unjudged, axis=1)
    best_order = np.cumsum(further.unjudged, axis=1)
    in_top = order[:, -1]
    for count in range(retrieved.depth + 1):
        added = np.minimum(count, retrieved.n_unjudged)
        below = np.minimum(added, retrieved.n_unjudged - in_top)
        yield retrieved.relabel(unjudged & (order > (in_top - added + below)[:, None]), below)
        best = further.unjudged & (best_order <= added[:, None])
        yield further.relabel(best, added - best.sum(axis=1))


def _label_worst_and_best(
    top: TopK, judgments: Judgments, k: int, deepest: int, gains: Sequence[float]
) -> Iterator[Judgments]:
    """The judgments under each labelling of :func:`_worst_and_best_pairs`, with each of the gains."""
    for rows, columns in _worst_and_best_pairs(top, judgments, k, deepest):
        for gain in gains:
            yield judgments.with_gains(rows, columns, gain)


def _worst_and_best_pairs(top: TopK, judgments: Judgments, k: int, deepest: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Rows and columns of n new positives of the worst and the best labelling, for each n up to K.

    The best are the first unjudged ones of the ``deepest`` best items, the worst are all below these.
    """
    unjudged = ~look_up_gains(top, judgments, deepest, "bounds")[1]
    columns = find_positions(top.ids[:, : unjudged.shape[1]], judgments.gallery_ids)[0]
    below = _find_below(columns, judgments, k)
    order = np.cumsum(unjudged, axis=1)
    order_below = np.cumsum(below, axis=1)
    n_top = order[:, -1:]
    n_below = order_below[:, -1:]
    for count in range(k + 1):
        worst = order > n_top - np.maximum(count - n_below, 0), order_below <= count
        best = order <= count, order_below <= count - n_top
        for in_top, further in (worst, best):
            rows, places = np.nonzero(unjudged & in_top)
            rows_below, columns_below = np.nonzero(below & further)
            yield np.append(rows, rows_below), np.append(columns[rows, places], columns_below)


def _find_below(columns: IntArray, judgments: Judgments, most: int) -> Flags:
    """(Q, W) bool, which of the first W items of the gallery are unjudged and not in the top: all, or at least K."""
    judged = np.diff(judgments.indptr).max(initial=0)
    width = int(min(judgments.gallery_ids.size, most + columns.shape[1] + judged + 1))
    free = np.ones((len(columns), width), dtype=bool)
    queries = np.arange(len(columns))
    taken = [(queries[:, None].repeat(columns.shape[1], axis=1), columns), (judgments.rows, judgments.indices)]
    if judgments.without_self:
        itself, is_ranked = find_positions(judgments.query_ids, judgments.gallery_ids)
        taken.append((queries[is_ranked], itself[is_ranked]))
    for rows, items in taken:
        inside = items < width
        free[rows[inside], items[inside]] = False
    return free


@dataclass(frozen=True, slots=True, eq=False)
class SamplingUnits:
    """All units of a metric and their open pairs.

    Attributes:
        query_ids: (U,) query of each unit.
        owners: (P,) unit of each open pair, ascending.
        images, captions: (P,) ids of the open pairs.
        value: maps (P,) labels of the open pairs to (U,) values.
        forecast: (U,) mean and (U,) standard deviation of the value of each unit, if each open pair is positive with
            the probability that a judge gives it; None without a judge.
        labels: (P,) labels of the open pairs that a judge gave for the number itself, if it did.
    """

    query_ids: IntArray
    owners: IntArray
    images: IntArray
    captions: IntArray
    value: Callable[[FloatArray], FloatArray]
    forecast: tuple[FloatArray, FloatArray] | None = None
    labels: FloatArray | None = None

    @property
    def predicted(self) -> FloatArray:
        """(U,) mean value of each unit."""
        return self._require_forecast()[0]

    @property
    def deviations(self) -> FloatArray:
        """(U,) standard deviation of the value of each unit."""
        return self._require_forecast()[1]

    def _require_forecast(self) -> tuple[FloatArray, FloatArray]:
        if self.forecast is None:
            raise InvalidOption("open pairs need a judge: give probabilities, or a classifier of entailment")
        return self.forecast

    @property
    def costs(self) -> IntArray:
        """(U,) number of open pairs of each unit."""
        return np.bincount(self.owners, minlength=self.query_ids.size)

    @property
    def fingerprint(self) -> str:
        """A hash of the open pairs and their units."""
        order = np.lexsort((self.captions, self.images))
        joined = np.stack([self.images[order], self.captions[order], self.query_ids[self.owners[order]]])
        return hashlib.sha256(np.ascontiguousarray(joined, dtype="<i8").tobytes()).hexdigest()


def make_rank_units(
    variant: Variant[RankMetric], retrieved: Retrieved, direction: str, probabilities: FloatArray | None = None
) -> SamplingUnits:
    """A unit per query, with the unjudged items of its top that can change its value."""
    is_open = retrieved.matters(variant)
    best_rank = variant.spec.best_rank
    rows, columns = np.nonzero(is_open)

    def value(labels: FloatArray | Flags) -> FloatArray:
        flags = np.zeros_like(is_open)
        flags[rows, columns] = labels > 0
        return variant.compute(retrieved.with_best(retrieved.best(flags)) if best_rank else retrieved.relabel(flags))

    forecast = None
    if probabilities is not None:
        if best_rank:
            values, weights = expect_best(variant.compute, retrieved, np.where(is_open, probabilities, 0.0))
        else:
            random = np.random.default_rng(0)
            chances = probabilities[rows, columns]
            values = np.stack([value(random.random(rows.size) < chances) for _ in range(RANDOM_LABELLINGS)], axis=1)
            weights = np.full(values.shape, 1 / RANDOM_LABELLINGS)
        predicted = (values * weights).sum(axis=1)
        variances = (values**2 * weights).sum(axis=1) - predicted**2
        forecast = predicted, np.sqrt(np.where(variances > SMALLEST_VARIANCE, variances, 0))
    query_ids = retrieved.ranks.query_ids
    sides = orient(query_ids[rows], retrieved.ids[rows, columns], direction)
    return SamplingUnits(query_ids, rows, *sides, value, forecast)


def make_top_units(
    top: TopK, judgments: Judgments, k: int, direction: str, probabilities: FloatArray | None = None
) -> SamplingUnits:
    """A unit per retrieved pair, for the share of positives in the top K."""
    gains, judged = look_up_gains(top, judgments, k, "Entail@K")
    k = judged.shape[1]  # a gallery may hold fewer than K items
    owners = np.flatnonzero(~judged)
    known = gains.ravel()

    def value(labels: FloatArray) -> FloatArray:
        values = known.copy()
        values[owners] = labels
        return values

    forecast = None
    if probabilities is not None:
        chances = np.where(judged, gains, probabilities[:, :k]).ravel()
        forecast = chances, np.sqrt(chances * (1 - chances))
    query_ids = np.repeat(top.query_ids, k)
    sides = orient(query_ids[owners], top.ids[:, :k].ravel()[owners], direction)
    return SamplingUnits(query_ids, owners, *sides, value, forecast)
