"""Crisscrossed Captions, STS: two captions, rated from 0 to 5."""

import numpy as np

from cxc_eccv.builders.lookup import caption_texts, images_of
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpus import SPLITS, Corpus, Pairs, keys, make_pairs, reaches


def pairs(library: Library, split: str, threshold: float) -> Pairs:
    """The first caption as premise, without its image, and the second as hypothesis."""
    name = SPLITS[split]
    table = library.cxc("sts", name)
    left, right, ratings = (np.asarray(table[column]) for column in ("left_id", "right_id", "rating"))
    return make_pairs(
        [[text] for text in caption_texts(library, name, left).to_pylist()],
        caption_texts(library, name, right),
        reaches(ratings, threshold),
        rating=ratings,
        image_key=keys("coco", images_of(library, name, left)),
        caption_key=keys("coco", right),
    )


CORPUS = Corpus(
    name="cxc_sts",
    title="CxC, STS",
    kinds=("text",),
    rule="rating at or above the threshold",
    groups=("cxc", "karpathy"),
    expected={"val": 44_009, "test": 44_045},
    pairs=pairs,
)
