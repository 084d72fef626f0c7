"""Readers from raw files to typed tables, one per source."""

from cxc_eccv.sources.readers.coco_instances import CategorySets, Instances, read_category_sets, read_instances
from cxc_eccv.sources.readers.crowd_answers import CrowdAnswers, read_crowd_answers
from cxc_eccv.sources.readers.cxc_ratings import RATING_COLUMNS, read_annotators, read_ratings
from cxc_eccv.sources.readers.eccv_caption import UNREACHABLE_CAPTIONS, invalid_items, read_positives
from cxc_eccv.sources.readers.entailment_labels import EntailmentPairs, read_entailment
from cxc_eccv.sources.readers.flickr8k import (
    read_flickr8k,
    read_flickr8k_crowd,
    read_flickr8k_experts,
    split_flickr8k,
)
from cxc_eccv.sources.readers.karpathy import SplitTables, fold_restval, read_karpathy
from cxc_eccv.sources.readers.label_tables import (
    FACTS_KEY,
    LABELS_SCHEMA,
    MINED_SCHEMA,
    LabelFile,
    MinedPairs,
    find_labels,
    read_label_files,
    read_labels,
    read_mined,
    write_labels,
)
from cxc_eccv.sources.readers.sentence_pairs import SentencePairs, read_aligned, read_semeval, read_sick, read_stsb
from cxc_eccv.sources.readers.visual_genome import read_region_descriptions, read_visual_genome

__all__ = [
    "FACTS_KEY",
    "LABELS_SCHEMA",
    "MINED_SCHEMA",
    "RATING_COLUMNS",
    "UNREACHABLE_CAPTIONS",
    "CategorySets",
    "CrowdAnswers",
    "EntailmentPairs",
    "Instances",
    "LabelFile",
    "MinedPairs",
    "SentencePairs",
    "SplitTables",
    "find_labels",
    "fold_restval",
    "invalid_items",
    "read_aligned",
    "read_annotators",
    "read_category_sets",
    "read_crowd_answers",
    "read_entailment",
    "read_flickr8k",
    "read_flickr8k_crowd",
    "read_flickr8k_experts",
    "read_instances",
    "read_karpathy",
    "read_label_files",
    "read_labels",
    "read_mined",
    "read_positives",
    "read_ratings",
    "read_region_descriptions",
    "read_semeval",
    "read_sick",
    "read_stsb",
    "read_visual_genome",
    "split_flickr8k",
    "write_labels",
]
