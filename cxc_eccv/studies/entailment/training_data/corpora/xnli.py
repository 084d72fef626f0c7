"""XNLI, its English part: premise and hypothesis over many genres."""

from cxc_eccv.studies.entailment.training_data.corpus import Corpus
from cxc_eccv.studies.entailment.training_data.hub import HubTable

TABLE = HubTable(
    name="xnli",
    repository="facebook/xnli",
    config="en",
    premise="premise",
    hypothesis="hypothesis",
    labels=("entailment", "neutral", "contradiction"),
    positive="entailment",
)

CORPUS = Corpus(
    name="xnli",
    title="XNLI",
    kinds=("text",),
    rule="entailment against neutral and contradiction",
    groups=("xnli",),
    expected={"train": 392_702, "val": 2_490, "test": 5_010},
    pairs=TABLE.pairs,
    place=TABLE.place,
    published="400.2k",
    published_parts=("train", "val", "test"),
)
