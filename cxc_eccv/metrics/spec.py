"""Spec: the declaration that stands beside every metric function."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

import numpy as np

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.judgments.plausible import Look
from cxc_eccv.types import FloatArray

NEEDS = ("ranks", "judged_ranks", "top_k", "plausible_hits", "rated_pairs", "altered_ranks", "scores", "comparisons")
"""What a task can offer, by what it reads of a run."""
NEEDS_OF_FAILURES = ("concepts", "concept_similarity", "concept_sizes")
"""What no task offers: it is about two images of one failed query each, and explains a run that was evaluated."""
HIGHEST_GAIN = {"ratings": 5.0, "labels": 1.0, "degrees": 1.0}
"""What the gains of judged items are, to the gain of a perfect match."""
AGGREGATES = ("mean", "median", "sum")
UNITS = {"percent": 100, "correlation": 1, "rank": 1, "number": 1}
"""What a value is to a reader, and what it is multiplied by to be shown: only fractions, to percent."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a metric is called, what it is computed from, and how its values are read.

    Attributes:
        function: the metric: values of queries or samples from what it needs, or one number from ``scores``.
        needs: ``ranks`` (PositiveRanks), ``judged_ranks`` (JudgedRanks), ``top_k`` (TopK of K items, or of R where the
            metric has no parameter k, and Judgments with gains), ``plausible_hits`` (PlausibleHits), ``rated_pairs``
            (RatedPairs and similarities), ``altered_ranks`` (AlteredRanks), ``comparisons`` (scores of captions and of
            their negatives), or ``scores`` (other metrics' values of a whole task).
        citation: where the metric is defined.
        parameters: each parameter's values that a report shows by default.
        bounds: lowest and highest value; None where there is no bound.
        higher_is_better: direction of improvement.
        aggregate: how the per-query values become one number: ``mean``, ``median`` or ``sum``.
        inputs: labels of the scores of each direction that a metric with ``needs="scores"`` is computed from.
        looks: what a metric with ``needs="plausible_hits"`` must have counted.
        gains: what the gains are that a metric with ``needs="top_k"`` takes: ``ratings``, ``labels`` of 0 and 1, or
            ``degrees`` of being positive, from 0 to 1.
        binary: whether the value of every query is 0 or 1, so that a binomial interval exists.
        title: its name on paper, with places for its parameters: ``R@{k}``. The label in words where none is given.
        long_title: the same where there is room for more; as ``title`` where none is given.
        best_rank: whether the rank of the best positive alone decides the value of a query, and R does not.
        term: of a metric with ``needs="ranks"`` that is a sum over all positives of a query, what one of them adds,
            from its place among them, its rank and R.
        expected: of a metric with ``needs="top_k"``, the mean over random labels of what nobody judged: from the top,
            the judgments, k where it has one, and (Q, K) probabilities, 0 for judged items, to (Q,) values.
        highest: of such a metric whose highest value takes gains between none and the highest, that value: from the
            top, the judgments and k to (Q,) values.
        samples: of a metric with ``needs="rated_pairs"`` and one value over all of them, its values over drawn
            clusters: from what it needs, (S, C) how often each cluster is drawn, and (P,) the cluster of each pair.
        unit: how values are shown: ``percent`` (times 100), ``correlation`` (as is, with more decimals), ``rank`` or
            ``number`` (as is).
    """

    function: Callable[..., FloatArray]
    needs: str
    citation: str
    parameters: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    bounds: tuple[float, float | None] = (0.0, 1.0)
    higher_is_better: bool = True
    aggregate: str = "mean"
    inputs: tuple[str, ...] = ()
    looks: tuple[Look, ...] = ()
    gains: str = "ratings"
    binary: bool = False
    title: str = ""
    long_title: str = ""
    unit: str = "percent"
    best_rank: bool = False
    term: Callable[..., FloatArray] | None = None
    expected: Callable[..., FloatArray] | None = None
    highest: Callable[..., FloatArray] | None = None
    samples: Callable[..., FloatArray] | None = None

    def __post_init__(self) -> None:
        known = (*NEEDS, *NEEDS_OF_FAILURES)
        if self.needs not in known or self.aggregate not in AGGREGATES:
            raise InvalidOption(
                f"metric {self.name}: needs {self.needs!r} must be one of {known}, "
                f"aggregate {self.aggregate!r} one of {AGGREGATES}"
            )
        if self.unit not in UNITS:
            raise UnknownName(f"unit of metric {self.name}", self.unit, UNITS)
        if self.unit in ("percent", "correlation") and (self.bounds[1] is None or self.bounds[1] > 1):
            raise InvalidOption(
                f"metric {self.name}: unit {self.unit!r} is for values of at most 1, its bounds are {self.bounds}; "
                "declare unit='rank' or unit='number'"
            )
        places = {name: f"{{{name}}}" for name in self.parameters}
        object.__setattr__(self, "title", self.title or self.label(**places).replace("_", " "))
        object.__setattr__(self, "long_title", self.long_title or self.title)
        for title in (self.title, self.long_title):
            if {place for _, place, _, _ in Formatter().parse(title) if place is not None} != set(places):
                raise InvalidOption(
                    f"metric {self.name}: its title {title!r} must have a place for each of its parameters and no "
                    f"other: {', '.join(places.values()) or 'none'}"
                )

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def description(self) -> str:
        """The function's docstring."""
        return inspect.getdoc(self.function) or ""

    def label(self, **parameters: Any) -> str:  # noqa: ANN401 - parameter values of any type
        """The name in report keys: a trailing parameter is replaced by its value.

        Example:
            >>> from cxc_eccv.metrics.recall_at_k import SPEC
            >>> SPEC.label(k=5)
            'recall_at_5'
        """
        label = self.name
        for parameter, value in parameters.items():
            label = f"{label.removesuffix(f'_{parameter}')}_{value}"
        return label

    def variants(self) -> Iterator[dict[str, Any]]:
        """Every combination of the default parameter values.

        Example:
            >>> from cxc_eccv.metrics.recall_at_k import SPEC
            >>> list(SPEC.variants())
            [{'k': 1}, {'k': 5}, {'k': 10}]
        """
        for values in itertools.product(*self.parameters.values()):
            yield dict(zip(self.parameters, values, strict=True))

    @property
    def explains(self) -> bool:
        """Whether it is about failed queries, which no task hands it: ``cxc-eccv explain`` computes it."""
        return self.needs in NEEDS_OF_FAILURES

    def average(self, values: FloatArray) -> float:
        """One number from the (Q,) values of all queries: their mean, or their median where the metric is one."""
        return float(np.median(values) if self.aggregate == "median" else values.mean())

    def accepted(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those of several options that the function takes.

        Example:
            >>> from cxc_eccv.metrics.bootstrap_spearman import SPEC
            >>> SPEC.accepted({"seed": 7, "unjudged": "leave_out"})
            {'seed': 7}
        """
        known = inspect.signature(self.function).parameters
        return {name: value for name, value in options.items() if name in known}
