"""Names and averages of the results of an ``evaluate`` module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray

__all__ = ["aggregated", "label", "results_of", "variants"]


def variants(spec: Spec, parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of parameters, where one that the metric's name carries may be a list of values.

    Raises:
        InvalidOption: an empty list.

    Example:
        >>> from cxc_eccv.metrics.recall_at_k import SPEC
        >>> list(variants(SPEC, {"k": [1, 5]}))
        [{'k': 1}, {'k': 5}]
    """
    choices = [_choices(name, value) if name in spec.parameters else [value] for name, value in parameters.items()]
    return (dict(zip(parameters, values, strict=True)) for values in itertools.product(*choices))


def label(spec: Spec, parameters: Mapping[str, Any]) -> str:
    """The result's name: the metric's, with the parameters that it carries.

    Example:
        >>> from cxc_eccv.metrics.recall_at_k import SPEC
        >>> label(SPEC, {"k": 5})
        'recall_at_5'
    """
    return spec.label(**{name: value for name, value in parameters.items() if name in spec.parameters})


def aggregated(spec: Spec, values: FloatArray) -> float:
    """One number from the values of all queries.

    Example:
        >>> from cxc_eccv.metrics.median_rank import SPEC
        >>> aggregated(SPEC, np.array([1.0, 2.0, 9.0]))
        2.0
    """
    return float(np.median(values) if spec.aggregate == "median" else values.mean())


def results_of(spec: Spec, name: str, values: FloatArray, *, per_query: bool) -> dict[str, Any]:
    """A result and, where asked for, the values behind it.

    Example:
        >>> from cxc_eccv.metrics.mrr import SPEC
        >>> results_of(SPEC, "mrr", np.array([0.5, 1.0]), per_query=True)
        {'mrr': 0.75, 'mrr_per_query': [0.5, 1.0]}
    """
    return {name: aggregated(spec, values)} | ({f"{name}_per_query": values.tolist()} if per_query else {})


def _choices(name: str, value: Any) -> list[Any]:  # noqa: ANN401 - a parameter of any metric
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not values:
        raise InvalidOption(f"{name} is an empty list; give at least one value")
    return values
