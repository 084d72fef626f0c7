"""Co-captions of Flickr30k: what one caption of an image says follows from the others."""

from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpus import SPLITS, Corpus, Pairs, co_captions


def pairs(library: Library, split: str, _threshold: float) -> Pairs:
    """A pair for every caption of an image that has several."""
    return co_captions("flickr30k", library.flickr30k(SPLITS[split]))


CORPUS = Corpus(
    name="flickr30k",
    title="Co-captions of Flickr30k",
    kinds=("text", "multimodal"),
    rule="a caption, and the image with its other captions: always positive",
    groups=("flickr30k",),
    expected={"train": 145_000, "val": 5_070, "test": 5_000},
    pairs=pairs,
)
