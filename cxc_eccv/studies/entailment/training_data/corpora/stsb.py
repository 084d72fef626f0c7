"""The STS Benchmark: sentence pairs of captions, headlines and forums, rated from 0 to 5."""

from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_stsb
from cxc_eccv.studies.entailment.training_data.corpus import Corpus, Pairs, make_pairs, reaches

FILES = {"train": "stsb_train", "val": "stsb_dev", "test": "stsb_test"}


def pairs(library: Library, split: str, threshold: float) -> Pairs:
    """The first sentence as premise, the second as hypothesis."""
    scored = library.read(FILES[split], read_stsb)
    labels = reaches(scored.scores, threshold)
    return make_pairs([[text] for text in scored.left], scored.right, labels, rating=scored.scores)


CORPUS = Corpus(
    name="stsb",
    title="STS-B",
    kinds=("text",),
    rule="rating at or above the threshold",
    groups=("stsb",),
    expected={"train": 5_749, "val": 1_500, "test": 1_379},
    pairs=pairs,
    published="7.2k",
    published_parts=("train", "val"),
)
