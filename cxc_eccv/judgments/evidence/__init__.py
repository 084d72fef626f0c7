"""Sources of labels: one SOURCE per file, with its name, order, rule and evidence."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from cxc_eccv.discovery import declared
from cxc_eccv.judgments.evidence.entailment import match_hypotheses
from cxc_eccv.judgments.evidence.source import KIND, Evidence, Source, Thresholds, item_ids
from cxc_eccv.sources.library import Library

__all__ = ["KIND", "Evidence", "Source", "Thresholds", "gather", "item_ids", "label_sources", "match_hypotheses"]


@cache
def label_sources() -> Mapping[str, Source]:
    """Every source of labels by name, from the oldest and most general to the latest and most specific."""
    found = declared(importlib.import_module(__name__), "SOURCE", Source)
    return MappingProxyType(dict(sorted(found.items(), key=lambda entry: entry[1].order)))


def gather(library: Library, split: str, direction: str, source: str, thresholds: Thresholds) -> Evidence | None:
    """All that ``source`` says in this direction, or None where it judges nothing of the split."""
    found = label_sources()[source].evidence(library, split, direction, thresholds)
    return None if found is None else replace(found, source=source)
