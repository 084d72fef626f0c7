"""Spec: the declaration of a metric."""

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

NEEDS = ("ranks", "judged_ranks", "top_k", "plausible_hits", "rated_pairs", "scores")
"""What a task can offer to metrics."""
NEEDS_OF_FAILURES = ("concepts", "concept_similarity", "concept_sizes")
"""What only ``cxc-eccv explain`` offers: concepts of the two images of a failed query."""
HIGHEST_GAIN = {"ratings": 5.0, "labels": 1.0, "degrees": 1.0}
"""Kind of gains to the gain of a perfect match."""
AGGREGATES = ("mean", "median", "sum")
UNITS = {"percent": 100, "correlation": 1, "rank": 1, "number": 1}
"""Unit of a value to the factor with which it is shown."""
ROUNDING = 1e-9
"""A mean of ones may exceed 1 by this much."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a metric is called, what it needs, and how to read its values.

    Attributes:
        function: the metric: maps what it needs to values of queries or samples, or ``scores`` to one number.
        needs: ``ranks`` (PositiveRanks), ``judged_ranks`` (JudgedRanks), ``top_k`` (TopK of K items, or of R if the
            metric has no parameter k, and Judgments with gains), ``plausible_hits`` (PlausibleHits), ``rated_pairs``
            (RatedPairs and similarities), or ``scores`` (values of other metrics in all directions of a task).
        citation: the paper that defines the metric.
        parameters: parameter to the values that a report shows by default.
        bounds: lowest and highest value; None where there is no bound.
        higher_is_better: direction of improvement.
        aggregate: how per-query values become one number: ``mean``, ``median`` or ``sum``.
        inputs: for ``needs="scores"``: the labels of the scores of each direction.
        looks: for ``needs="plausible_hits"``: the zetas and cuts to count.
        gains: for ``needs="top_k"``: ``ratings``, ``labels`` of 0 and 1, or ``degrees`` from 0 to 1.
        binary: whether every query's value is 0 or 1, so that a binomial interval exists.
        title: short name with placeholders for its parameters, such as ``R@{k}``; defaults to the label in words.
        long_title: longer name; defaults to ``title``.
        best_rank: whether a query's value depends only on the rank of its best positive.
        term: for ``needs="ranks"``, if the value is a sum over positives: the term of one positive, from its place
            among them, its rank and R.
        expected: for ``needs="top_k"``: the mean over random labels of unjudged items, from the top, the judgments, k
            if the metric has one, and (Q, K) probabilities, 0 for judged items, to (Q,) values.
        highest: for ``needs="top_k"``, if gains between 0 and the highest can give the highest value: that value, from
            the top, the judgments and k to (Q,) values.
        samples: for ``needs="rated_pairs"``: the values of a metric over drawn clusters, from what it needs, (S, C) how
            often each cluster is drawn, and (P,) the cluster of each pair.
        judged_only: whether the function is called with ``judged_only=True``, on JudgedRanks; see
            :meth:`of_judged_items`.
        packages: further packages that the function imports, for its ``evaluate`` module.
        unit: how values are shown: ``percent`` (times 100), ``correlation`` (more decimals), ``rank`` or ``number``.
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
    judged_only: bool = False
    packages: tuple[str, ...] = ()

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
                f"metric {self.name}: unit {self.unit!r} is for values of at most 1, but its bounds are {self.bounds}; "
                "declare unit='rank' or unit='number'"
            )
        places = {name: f"{{{name}}}" for name in self.parameters}
        object.__setattr__(self, "title", self.title or self.label(**places).replace("_", " "))
        object.__setattr__(self, "long_title", self.long_title or self.title)
        for title in (self.title, self.long_title):
            if {place for _, place, _, _ in Formatter().parse(title) if place is not None} != set(places):
                raise InvalidOption(
                    f"metric {self.name}: the placeholders in its title {title!r} must be those of its parameters: "
                    f"{', '.join(places.values()) or 'none'}"
                )

    @property
    def name(self) -> str:
        """The function's name, which ``judged_only`` precedes if it looks at judged items alone."""
        return f"judged_only_{self.function.__name__}" if self.judged_only else self.function.__name__

    @property
    def fixed(self) -> dict[str, bool]:
        """What the function is always called with."""
        return {"judged_only": True} if self.judged_only else {}

    def of_judged_items(self) -> Spec:
        """The same metric of judged items alone, the condensed list: the function takes ``judged_only=True``.

        Example:
            >>> from cxc_eccv.metrics.map_at_r import SPEC
            >>> SPEC.of_judged_items().name
            'judged_only_map_at_r'
        """
        return Spec(
            function=self.function,
            needs="judged_ranks",
            citation="Sakai, SIGIR 2007, doi:10.1145/1277741.1277756; MacAvaney et al., ECIR 2022, arXiv:2111.13466",
            parameters=self.parameters,
            binary=self.binary,
            title=f"{self.title}, judged only",
            judged_only=True,
        )

    @property
    def description(self) -> str:
        """The function's docstring."""
        return inspect.getdoc(self.function) or ""

    def label(self, **parameters: Any) -> str:  # noqa: ANN401 - parameter values of any type
        """The name in report keys, with the value of a parameter in place of its name.

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
        """Whether it measures failed queries, which only ``cxc-eccv explain`` does."""
        return self.needs in NEEDS_OF_FAILURES

    def average(self, values: FloatArray) -> float:
        """The median of (Q,) values if the metric is a median, else their mean."""
        return float(np.median(values) if self.aggregate == "median" else values.mean())

    def select_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that the function takes.

        Example:
            >>> from cxc_eccv.metrics.bootstrap_spearman import SPEC
            >>> SPEC.select_options({"seed": 7, "unjudged": "leave_out"})
            {'seed': 7}
        """
        known = inspect.signature(self.function).parameters
        return {name: value for name, value in options.items() if name in known}
