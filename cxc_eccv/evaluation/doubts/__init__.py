"""Doubts: what in a run makes its numbers suspect although nothing is broken. Each file declares one doubt.

A doubt is a pure function from what was measured to one sentence with figures and a remedy, or None. Doubts are shown
above the scores, and never stop a report.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter

from cxc_eccv.discovery import find_declared
from cxc_eccv.evaluation.doubts.doubt import Doubt, Evidence

__all__ = ["Doubt", "Evidence", "find_doubts", "warn_of_doubts"]


@cache
def _declared_doubts() -> tuple[Doubt, ...]:
    """All doubts, each before those that it explains."""
    from cxc_eccv.evaluation import doubts

    declared = find_declared(doubts, "DOUBT", Doubt)
    causes: dict[str, list[str]] = {name: [] for name in declared}
    for name, doubt in declared.items():
        for effect in doubt.explains:
            causes[effect].append(name)
    return tuple(declared[name] for name in TopologicalSorter(causes).static_order())


def find_doubts(evidence: Evidence) -> dict[str, str]:
    """Name to sentence of every doubt, without those that another one explains."""
    found: dict[str, str] = {}
    explained: set[str] = set()
    for doubt in _declared_doubts():
        sentence = None if doubt.name in explained else doubt.find(evidence)
        if sentence is not None:
            found[doubt.name] = sentence
            explained.update(doubt.explains)
    return found


def warn_of_doubts(doubts: Mapping[str, str], known: set[str], *, stacklevel: int = 3) -> None:
    """Warn of the doubts of a report that nobody prints, each once: ``known`` has the names of those told before."""
    for name, sentence in doubts.items():
        if name not in known:
            known.add(name)
            warnings.warn(f"check this first: {sentence}", stacklevel=stacklevel)
