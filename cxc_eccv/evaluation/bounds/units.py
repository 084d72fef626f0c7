"""The units of a metric: what it averages, each with the open pairs whose labels decide its value.

A unit of Entail@K is one retrieved pair, as the metric is linear in their labels. A unit of Recall@K, MRR and metrics
at R is a query with all its open pairs: these metrics are not linear in labels, so that a query of which only some
pairs are labelled would bias them, however its labels were weighed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.bounds.expected import expect_best
from cxc_eccv.evaluation.bounds.retrieved import Flags, Retrieved
from cxc_eccv.metrics.kinds import RankMetric, Variant
from cxc_eccv.types import FloatArray, IntArray, Judgments, TopK, look_up_gains
from cxc_eccv.types.judgments import orient

LABELLINGS = 64
"""Random labellings behind the prediction of a metric at R."""

ROUNDING = 1e-12
"""A variance below this comes from rounding; the value is certain."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
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


def units_of_ranks(
    variant: Variant[RankMetric], retrieved: Retrieved, direction: str, probabilities: FloatArray | None = None
) -> Units:
    """A unit per query, with the unjudged items of its top that can change its value."""
    is_open, best_rank = retrieved.matters(variant), variant.spec.best_rank
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
            random, chances = np.random.default_rng(0), probabilities[rows, columns]
            values = np.stack([value(random.random(rows.size) < chances) for _ in range(LABELLINGS)], axis=1)
            weights = np.full(values.shape, 1 / LABELLINGS)
        predicted = (values * weights).sum(axis=1)
        variances = (values**2 * weights).sum(axis=1) - predicted**2
        forecast = predicted, np.sqrt(np.where(variances > ROUNDING, variances, 0))
    query_ids = retrieved.ranks.query_ids
    sides = orient(query_ids[rows], retrieved.ids[rows, columns], direction)
    return Units(query_ids, rows, *sides, value, forecast)


def units_of_top(
    top: TopK, judgments: Judgments, k: int, direction: str, probabilities: FloatArray | None = None
) -> Units:
    """A unit per retrieved pair, for the share of positives in the top K."""
    gains, judged = look_up_gains(top, judgments, k, "Entail@K")
    k = judged.shape[1]  # a gallery may hold fewer than K items
    (owners,), known = np.nonzero(~judged.ravel()), gains.ravel()

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
    return Units(query_ids, owners, *sides, value, forecast)
