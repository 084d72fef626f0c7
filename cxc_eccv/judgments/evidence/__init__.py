"""Sources of labels: one SOURCE per file, with its name, order, rule and evidence."""

from cxc_eccv.judgments.evidence.coco import co_captions
from cxc_eccv.judgments.evidence.entailment import labels_of_file, match_hypotheses
from cxc_eccv.judgments.evidence.source import (
    KIND,
    Evidence,
    Source,
    Thresholds,
    gather,
    item_ids,
    label_file_source,
    label_sources,
    number_pairs,
    official_sources,
    sources_of,
)

__all__ = [
    "KIND",
    "Evidence",
    "Source",
    "Thresholds",
    "co_captions",
    "gather",
    "item_ids",
    "label_file_source",
    "label_sources",
    "labels_of_file",
    "match_hypotheses",
    "number_pairs",
    "official_sources",
    "sources_of",
]
