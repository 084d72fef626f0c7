"""Spec: what metrics of every kind declare; their kinds are in :mod:`cxc_eccv.metrics.kinds`."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from string import Formatter
from typing import Generic, TypeVar

import numpy as np

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.types import FloatArray

UNITS = {"percent": 100, "correlation": 1, "rank": 1, "number": 1}
"""Unit of a value to the factor with which it is shown."""
ROUNDING = 1e-9
"""A mean of ones may exceed 1 by this much."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a metric is called, and how to read its values; a subclass says what it is computed from.

    Attributes:
        function: the metric: maps what it is computed from to values of queries, samples or failures.
        title: short name with placeholders for its parameters, such as ``R@{k}``.
        citation: the paper that defines the metric.
        parameters: parameter to the values that a report shows by default.
        bounds: lowest and highest value; None where there is no bound.
        higher_is_better: direction of improvement.
        unit: how values are shown: ``percent`` (times 100), ``correlation`` (more decimals), ``rank`` or ``number``.
        long_title: longer name; defaults to ``title``.
        packages: further packages that the function imports, for its ``evaluate`` module.
    """

    function: Callable[..., FloatArray]
    title: str
    _: KW_ONLY
    citation: str
    parameters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    bounds: tuple[float, float | None] = (0.0, 1.0)
    higher_is_better: bool = True
    unit: str = "percent"
    long_title: str = ""
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.citation:
            raise InvalidOption(f"metric {self.name}: citation is empty; name the paper that defines it")
        if self.unit not in UNITS:
            raise UnknownName(f"unit of metric {self.name}", self.unit, UNITS)
        if self.unit in ("percent", "correlation") and (self.bounds[1] is None or self.bounds[1] > 1):
            raise InvalidOption(
                f"metric {self.name}: unit {self.unit!r} is for values of at most 1, but its bounds are {self.bounds}; "
                "declare unit='rank' or unit='number'"
            )
        object.__setattr__(self, "long_title", self.long_title or self.title)
        for title in (self.title, self.long_title):
            if {place for _, place, _, _ in Formatter().parse(title) if place is not None} != set(self.parameters):
                places = ", ".join(f"{{{name}}}" for name in self.parameters)
                raise InvalidOption(
                    f"metric {self.name}: the placeholders in its title {title!r} must be those of its parameters: "
                    f"{places or 'none'}"
                )
        self.check_arguments("function", self.function, *self.parameters)
        self.check_kind()

    def check_kind(self) -> None:
        """Raise InvalidOption or UnknownName if what the kind adds is incomplete or wrong."""

    def check_arguments(self, field_name: str, function: Callable[..., FloatArray], *arguments: str) -> None:
        """Raise InvalidOption if a function of this declaration does not take these arguments by name."""
        for argument in arguments:
            if argument not in inspect.signature(function).parameters:
                raise InvalidOption(f"metric {self.name}: its {field_name} takes no argument {argument!r}")

    @property
    def reads(self) -> str:
        """The judgments of a task's part that it is computed from, by their name in a ``Part``; empty if of none."""
        return ""

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def description(self) -> str:
        """The function's docstring."""
        return inspect.getdoc(self.function) or ""

    def compute(self, *inputs: object, **parameters: object) -> FloatArray:
        """The values of what the metric is computed from."""
        return self.function(*inputs, **parameters)

    @property
    def aggregate(self) -> str:
        """How values become one number: ``mean``, ``median`` or ``sum``."""
        return "mean"

    @property
    def binary(self) -> bool:
        """Whether every query's value is 0 or 1, so that a binomial interval exists."""
        return False

    @property
    def averaged_over(self) -> str:
        """What has the values that become one number."""
        return "queries"

    @property
    def explains(self) -> bool:
        """Whether it measures failed queries, which only ``cxc-eccv explain`` does."""
        return False

    @property
    def is_open(self) -> bool:
        """Whether labels of retrieved pairs alone decide a query's value, so that answers about them estimate it."""
        return False

    def label(self, **parameters: int | str) -> str:
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

    def variants(self) -> Iterator[dict[str, int]]:
        """Every combination of the default parameter values.

        Example:
            >>> from cxc_eccv.metrics.recall_at_k import SPEC
            >>> list(SPEC.variants())
            [{'k': 1}, {'k': 5}, {'k': 10}]
        """
        for values in itertools.product(*self.parameters.values()):
            yield dict(zip(self.parameters, values, strict=True))

    def average(self, values: FloatArray) -> float:
        """The median of (Q,) values if the metric is a median, else their mean."""
        return float(np.median(values) if self.aggregate == "median" else values.mean())


Kind = TypeVar("Kind", bound=Spec, covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Variant(Generic[Kind]):
    """A metric with the parameters of one call."""

    spec: Kind
    parameters: Mapping[str, int]
    shown: bool = True  # False if it is computed only for another metric

    @property
    def label(self) -> str:
        """The name in report keys."""
        return self.spec.label(**self.parameters)

    @property
    def k(self) -> int | None:
        """The depth K; None for a metric without one."""
        return self.parameters.get("k")

    def compute(self, *inputs: object, **options: object) -> FloatArray:
        """The values of the metric."""
        return self.spec.compute(*inputs, **self.parameters, **options)
