"""Recognizing Textual Entailment: sentences of the news and of Wikipedia."""

from cxc_eccv.studies.entailment.training_data.corpus import Corpus
from cxc_eccv.studies.entailment.training_data.hub import HubTable

TABLE = HubTable(
    name="rte",
    repository="nyu-mll/glue",
    config="rte",
    premise="sentence1",
    hypothesis="sentence2",
    labels=("entailment", "not_entailment"),
    positive="entailment",
)

CORPUS = Corpus(
    name="rte",
    title="RTE",
    kinds=("text",),
    rule="entailment",
    groups=("rte",),
    expected={"train": 2_490, "val": 277},
    pairs=TABLE.pairs,
    place=TABLE.place,
    published="2.7k",
    published_parts=("train", "val"),
)
