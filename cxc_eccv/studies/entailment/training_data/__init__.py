"""Labelled pairs to train a classifier of entailment on: many corpora in one schema, without test data."""

from cxc_eccv.studies.entailment.training_data.corpora import corpora
from cxc_eccv.studies.entailment.training_data.corpus import SCHEMA, Corpus, Pairs, join_captions, keys, premises_of
from cxc_eccv.studies.entailment.training_data.counts import Count, count_corpora, table_of_counts
from cxc_eccv.studies.entailment.training_data.leakage import count_images, count_named, evaluation_splits, plain_texts
from cxc_eccv.studies.entailment.training_data.load import TrainingData, load_training_data, part_of

__all__ = [
    "SCHEMA",
    "Corpus",
    "Count",
    "Pairs",
    "TrainingData",
    "corpora",
    "count_corpora",
    "count_images",
    "count_named",
    "evaluation_splits",
    "join_captions",
    "keys",
    "load_training_data",
    "part_of",
    "plain_texts",
    "premises_of",
    "table_of_counts",
]
