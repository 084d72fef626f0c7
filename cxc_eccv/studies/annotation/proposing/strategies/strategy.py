"""Strategy: what is chosen, in which order, and what that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cxc_eccv.studies.annotation.proposing.pool import NONE, Entries, Pool
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["Chosen", "Strategy"]


class Chosen(NamedTuple):
    """What a strategy chose.

    Attributes:
        pairs: (P,) numbers of pairs, each once. Those that are closed are not asked about.
        priority: (P,) the higher, the earlier a pair is asked about; None where the pairs stand in that order.
        entries: places of models' lists that propose some of these pairs.
    """

    pairs: IntArray
    priority: FloatArray | None
    entries: Entries = NONE


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to choose. A new one is one file in ``proposing/strategies`` that defines ``STRATEGY``.

    Attributes:
        name: equal to the file's name.
        title: in words.
        rule: what it proposes and what is asked first, a sentence.
        choose: from the pool to what is chosen.
        depth: how many items of a list are looked at where nobody says how many; None where it looks at no lists.
        models: the fewest and the most models that it takes; None for no limit.
        directions: those that every model must rank.
        takes: options of its own among ``classifier``, ``probabilities``, ``threshold``, ``metric`` and ``queries``.
        citation: where it comes from; empty where it is this package's own.
    """

    name: str
    title: str
    rule: str
    choose: Callable[[Pool], Chosen]
    depth: int | None = None
    models: tuple[int, int | None] = (1, None)
    directions: tuple[str, ...] = ("i2t", "t2i")
    takes: tuple[str, ...] = ("queries",)
    citation: str = ""
