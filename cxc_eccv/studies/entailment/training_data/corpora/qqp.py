"""Quora Question Pairs: questions that ask the same, or do not."""

from cxc_eccv.studies.entailment.training_data.corpus import Corpus
from cxc_eccv.studies.entailment.training_data.hub import HubTable

TABLE = HubTable(
    name="qqp",
    repository="nyu-mll/glue",
    config="qqp",
    premise="question1",
    hypothesis="question2",
    labels=("not_duplicate", "duplicate"),
    positive="duplicate",
)

CORPUS = Corpus(
    name="qqp",
    title="QQP",
    kinds=("text",),
    rule="duplicate questions",
    groups=("qqp",),
    expected={"train": 363_846, "val": 40_430},
    pairs=TABLE.pairs,
    place=TABLE.place,
    published="404.2k",
    published_parts=("train", "val"),
)
