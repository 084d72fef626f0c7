"""First captions: does what another caption of an image says follow from its first one?"""

from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpora import Corpus, Pairs, make_pairs
from cxc_eccv.studies.trainers.training_record import SPLIT_OF_PART, make_keys


def pairs(library: Library, split: str) -> Pairs:
    """The first caption of each image as premise, with every other one."""
    content = library.split(SPLIT_OF_PART[split])
    firsts: dict[int, str] = {}
    texts = content.captions["text"].to_pylist()
    images = content.caption_image_ids.tolist()
    others = [row for row, image in enumerate(images) if firsts.setdefault(image, texts[row]) != texts[row]]
    return make_pairs(
        [[firsts[images[row]]] for row in others],
        [texts[row] for row in others],
        [1] * len(others),
        {"first captions": len(texts) - len(others)},
        image_key=make_keys("coco", content.caption_image_ids[others]),
        caption_key=make_keys("coco", content.caption_ids[others]),
    )


CORPUS = Corpus(
    name="first_captions",
    rule="two captions of one image: always positive",
    groups=("karpathy",),
    parts=("val", "test"),
    pairs=pairs,
)
