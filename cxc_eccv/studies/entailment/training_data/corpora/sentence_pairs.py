"""Pairs of sentences: the STS Benchmark and SICK, which people judged, and text simplification."""

import numpy as np
import pyarrow as pa

from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_sick, read_stsb
from cxc_eccv.studies.entailment.training_data.corpus import Corpus, Pairs, make_pairs, reaches

STSB_FILES = {"train": "stsb_train", "val": "stsb_dev", "test": "stsb_test"}
SICK_FILES = {"train": "sick_train", "val": "sick_trial", "test": "sick_test"}


def stsb_pairs(library: Library, split: str, threshold: float) -> Pairs:
    """The first sentence as premise, the second as hypothesis, rated from 0 to 5."""
    scored = library.read(STSB_FILES[split], read_stsb)
    labels = reaches(scored.scores, threshold)
    return make_pairs([[text] for text in scored.left], scored.right, labels, rating=scored.scores)


def sick_pairs(library: Library, split: str, _threshold: float) -> Pairs:
    """Sentence A as premise, sentence B as hypothesis; relatedness is not a rating of entailment."""
    scored = library.read(SICK_FILES[split], read_sick)
    labels = np.array([judgment == "ENTAILMENT" for judgment in scored.table["judgment"].to_pylist()], dtype=np.int8)
    return make_pairs([[text] for text in scored.left], scored.right, labels)


def simplification_pairs(library: Library, _split: str, _threshold: float) -> Pairs:
    """A sentence of English Wikipedia as premise, its counterpart in Simple English Wikipedia as hypothesis."""
    table = library.simplifications()
    offsets = pa.array(np.arange(table.num_rows + 1, dtype=np.int32))
    premises = pa.ListArray.from_arrays(offsets, table["normal"].combine_chunks())
    return make_pairs(premises, table["simple"], np.ones(table.num_rows, dtype=np.int8))


CORPORA = (
    Corpus(
        name="stsb",
        title="STS-B",
        kinds=("text",),
        rule="rating at or above the threshold",
        groups=("stsb",),
        expected={"train": 5_749, "val": 1_500, "test": 1_379},
        pairs=stsb_pairs,
        published="7.2k",
        published_parts=("train", "val"),
    ),
    Corpus(
        name="sick",
        title="SICK",
        kinds=("text",),
        rule="entailment against neutral and contradiction",
        groups=("sick",),
        expected={"train": 4_500, "val": 500, "test": 4_927},
        pairs=sick_pairs,
    ),
    Corpus(
        name="simplification",
        title="TS",
        kinds=("text",),
        rule="a sentence and its simplification: always positive",
        groups=("simplification",),
        expected={"train": 167_689},
        pairs=simplification_pairs,
        published="167.6k",
        published_parts=("train",),
    ),
)
