"""Policies for retrieved pairs that have no label: one ``POLICY`` per file, named after the file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.discovery import find_declared
from cxc_eccv.types import FloatArray, IntArray

Classifier = Callable[[IntArray, IntArray], ArrayLike]
"""Maps (P,) query ids and (P,) item ids to (P,) labels, 1 where the query entails the item, else 0."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a query's top K is worth where some of its pairs have no label.

    Attributes:
        name: value of ``unjudged`` and of ``--unjudged``.
        summary: what it does with such a pair.
        compute: maps (Q, K) gains, 0 where there is no label, and (Q, K) whether there is one, to (Q,) values.
        needs_label: whether a query without any labelled pair among its top K has no value and is left out.
    """

    name: str
    summary: str
    compute: Callable[[FloatArray, NDArray[np.bool_]], FloatArray]
    needs_label: bool = False


@cache
def policies() -> Mapping[str, Policy]:
    """Every declared policy by name."""
    return find_declared(sys.modules[__name__], "POLICY", Policy)
