"""Microsoft Research Paraphrase Corpus: sentences of the news that mean the same, or do not."""

from cxc_eccv.studies.entailment.training_data.corpus import Corpus
from cxc_eccv.studies.entailment.training_data.hub import HubTable

TABLE = HubTable(
    name="mrpc",
    repository="nyu-mll/glue",
    config="mrpc",
    premise="sentence1",
    hypothesis="sentence2",
    labels=("not_equivalent", "equivalent"),
    positive="equivalent",
)

CORPUS = Corpus(
    name="mrpc",
    title="MRPC",
    kinds=("text",),
    rule="equivalent sentences",
    groups=("mrpc",),
    expected={"train": 3_668, "val": 408, "test": 1_725},
    pairs=TABLE.pairs,
    place=TABLE.place,
    published="5.8k",
    published_parts=("train", "val", "test"),
)
