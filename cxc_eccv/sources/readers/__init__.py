"""Readers from raw files to typed tables, one per source."""

from cxc_eccv.sources.readers.coco_instances import CategorySets, Instances, read_category_sets, read_instances
from cxc_eccv.sources.readers.flickr8k import (
    read_flickr8k,
    read_flickr8k_crowd,
    read_flickr8k_experts,
    split_flickr8k,
)
from cxc_eccv.sources.readers.judged import (
    KINDS,
    UNREACHABLE_CAPTIONS,
    EntailmentPairs,
    invalid_items,
    read_annotators,
    read_entailment,
    read_positives,
    read_ratings,
)
from cxc_eccv.sources.readers.karpathy import KarpathySplit, fold_restval, read_karpathy
from cxc_eccv.sources.readers.pairs import (
    LABELS_FACTS,
    LABELS_SCHEMA,
    MINED_FACTS,
    MINED_FORMAT,
    MINED_SCHEMA,
    LabelFile,
    MinedPairs,
    find_label_files,
    read_labels,
    read_mined,
    write_labels,
)
from cxc_eccv.sources.readers.sentence_pairs import SentencePairs, read_aligned, read_semeval, read_sick, read_stsb
from cxc_eccv.sources.readers.visual_genome import read_visual_genome

__all__ = [
    "KINDS",
    "LABELS_FACTS",
    "LABELS_SCHEMA",
    "MINED_FACTS",
    "MINED_FORMAT",
    "MINED_SCHEMA",
    "UNREACHABLE_CAPTIONS",
    "CategorySets",
    "EntailmentPairs",
    "Instances",
    "KarpathySplit",
    "LabelFile",
    "MinedPairs",
    "SentencePairs",
    "find_label_files",
    "fold_restval",
    "invalid_items",
    "read_aligned",
    "read_annotators",
    "read_category_sets",
    "read_entailment",
    "read_flickr8k",
    "read_flickr8k_crowd",
    "read_flickr8k_experts",
    "read_instances",
    "read_karpathy",
    "read_labels",
    "read_mined",
    "read_positives",
    "read_ratings",
    "read_semeval",
    "read_sick",
    "read_stsb",
    "read_visual_genome",
    "split_flickr8k",
    "write_labels",
]
