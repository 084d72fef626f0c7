"""ECCV Caption: captions of other images that people verified to describe an image."""

import numpy as np

from cxc_eccv.builders.config import caption_texts, file_names, images_of
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpus import Corpus, Pairs, captions_of_images, keys, make_pairs
from cxc_eccv.types import IntArray


def pairs(library: Library, _split: str, _threshold: float) -> Pairs:
    """The distinct positives of both directions, without an image's own captions, which are its premise."""
    both = np.concatenate([_pairs(library, "i2t"), _pairs(library, "t2i")[:, ::-1]])
    images, captions = np.unique(both, axis=0).T
    known = np.isin(captions, library.karpathy("test").caption_ids)
    unknown, (images, captions) = int((~known).sum()), (images[known], captions[known])
    others = images_of(library, "test", captions) != images
    of_own, (images, captions) = int((~others).sum()), (images[others], captions[others])
    return make_pairs(
        captions_of_images(library.karpathy("test"), images),
        caption_texts(library, "test", captions),
        np.ones(captions.size, dtype=np.int8),
        {"captions outside the split's five per image": unknown, "pairs of an image with its own caption": of_own},
        image=file_names(library, "test", images),
        image_key=keys("coco", images),
        caption_key=keys("coco", captions),
    )


def _pairs(library: Library, direction: str) -> IntArray:
    table = library.eccv("eccv", direction)
    return np.stack([table["query_id"], table["item_id"]], axis=1)


CORPUS = Corpus(
    name="eccv",
    title="ECCV Caption",
    kinds=("text", "multimodal"),
    rule="verified by people: always positive",
    groups=("eccv_caption", "karpathy"),
    expected={"test": 21_442},
    pairs=pairs,
    published="26.4k",
    published_parts=("test",),
    remark="the count nearest to it is 26,408: both directions together (27,740 pairs), without the own image of each "
    "of the 1,332 caption queries",
)
