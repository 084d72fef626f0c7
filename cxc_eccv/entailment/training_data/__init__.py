"""Labelled pairs that a classifier of entailment is trained on: many corpora, one schema, and nothing of a test split.

Each corpus is one file in ``corpora/`` that declares itself; ``corpus.py`` has the declaration and the schema,
``leakage.py`` the guard, and ``load.py`` the one call.
"""

from cxc_eccv.entailment.training_data.corpora import corpora
from cxc_eccv.entailment.training_data.corpus import SCHEMA, Corpus, Pairs
from cxc_eccv.entailment.training_data.load import TrainingData, load_training_data, part_of

__all__ = ["SCHEMA", "Corpus", "Pairs", "TrainingData", "corpora", "load_training_data", "part_of"]
