"""Strategy: what is chosen, in which order, and what that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cxc_eccv.studies.annotation.proposing.pool import NONE, Entries, Pool
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["Chosen", "Strategy"]


class Chosen(NamedTuple):
    """What a strategy chose."""

    pairs: IntArray  # (P,) numbers of pairs, each once; those that are closed are not asked about
    priority: FloatArray | None  # (P,) higher ones are asked first; None where the pairs stand in that order
    entries: Entries = NONE  # places of models' lists that propose some of these pairs


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to choose. A new one is one file in ``proposing/strategies`` that defines ``STRATEGY``."""

    name: str  # equal to the file's name
    title: str  # in words
    rule: str  # what it proposes and what is asked first, a sentence
    choose: Callable[[Pool], Chosen]
    depth: int | None = None  # how many items of a list are looked at by default; None where it looks at no lists
    models: tuple[int, int | None] = (1, None)  # the fewest and the most; None for no limit
    directions: tuple[str, ...] = ("i2t", "t2i")  # those that every model must rank
    takes: tuple[str, ...] = ("queries",)  # of queries, classifier, probabilities, threshold and metric
    citation: str = ""  # empty where it is this package's own
