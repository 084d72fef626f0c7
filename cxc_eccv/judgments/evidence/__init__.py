"""Sources of labels, each with its name, order, rule and evidence: those of papers, and one SOURCE per further file."""

from cxc_eccv.judgments.evidence.source import (
    KIND,
    Evidence,
    Source,
    Thresholds,
    co_captions,
    gather,
    item_ids,
    judging_sources,
    label_file_source,
    label_sources,
    labels_of_file,
    match_hypotheses,
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
    "judging_sources",
    "label_file_source",
    "label_sources",
    "labels_of_file",
    "match_hypotheses",
    "number_pairs",
    "official_sources",
    "sources_of",
]
