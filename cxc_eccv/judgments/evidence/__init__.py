"""Sources of labels: one SOURCE per file, with its name, order, rule and evidence."""

from cxc_eccv.judgments.evidence.entailment import match_hypotheses
from cxc_eccv.judgments.evidence.source import (
    KIND,
    Evidence,
    Source,
    Thresholds,
    gather,
    item_ids,
    label_sources,
    official_sources,
)

__all__ = [
    "KIND",
    "Evidence",
    "Source",
    "Thresholds",
    "gather",
    "item_ids",
    "label_sources",
    "match_hypotheses",
    "official_sources",
]
