"""Co-captions of COCO: what one caption of an image says follows from the others."""

from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpus import SPLITS, Corpus, Pairs, co_captions


def pairs(library: Library, split: str, _threshold: float) -> Pairs:
    """A pair for every caption of an image that has several."""
    return co_captions("coco", library.karpathy(SPLITS.get(split, split)))


CORPUS = Corpus(
    name="coco",
    title="Co-captions of COCO",
    kinds=("text", "multimodal"),
    rule="a caption, and the image with its other captions: always positive",
    groups=("karpathy",),
    expected={"train": 413_915, "restval": 152_520, "val": 25_000, "test": 25_000},
    pairs=pairs,
)
