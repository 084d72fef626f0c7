"""Co-captions of Flickr8k: what one caption of an image says follows from the others."""

from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpus import SPLITS, Corpus, Pairs, co_captions


def pairs(library: Library, split: str, _threshold: float) -> Pairs:
    """A pair for every caption; the photographs have the numbers that they have in Flickr30k, where many are too."""
    return co_captions("flickr8k", library.flickr8k_split(SPLITS[split]), photographs="flickr30k")


CORPUS = Corpus(
    name="flickr8k",
    title="Co-captions of Flickr8k",
    kinds=("text", "multimodal"),
    rule="a caption, and the image with its other captions: always positive",
    groups=("flickr8k",),
    expected={"train": 30_000, "val": 5_000, "test": 5_000},
    pairs=pairs,
)
