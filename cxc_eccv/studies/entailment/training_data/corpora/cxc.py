"""Crisscrossed Captions, rated from 0 to 5: an image with a caption of another one (SITS), and two captions (STS)."""

import numpy as np
import pyarrow.compute as pc

from cxc_eccv.builders.config import caption_texts, file_names, images_of
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpus import (
    SPLITS,
    Corpus,
    Pairs,
    captions_of_images,
    keys,
    make_pairs,
    reaches,
)


def sits_pairs(library: Library, split: str, threshold: float) -> Pairs:
    """Pairs of an image with a caption of another; the image's own captions are its premise."""
    name = SPLITS[split]
    rated = library.cxc("sits", name)
    table = rated.filter(pc.not_equal(rated["sampling_method"], "c2i_original"))
    captions, images, ratings = (np.asarray(table[column]) for column in ("left_id", "right_id", "rating"))
    return make_pairs(
        captions_of_images(library.karpathy(name), images),
        caption_texts(library, name, captions),
        reaches(ratings, threshold),
        {"pairs of an image with its own caption": rated.num_rows - table.num_rows},
        image=file_names(library, name, images),
        rating=ratings,
        image_key=keys("coco", images),
        caption_key=keys("coco", captions),
    )


def sts_pairs(library: Library, split: str, threshold: float) -> Pairs:
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


CORPORA = (
    Corpus(
        name="cxc",
        title="CxC, SITS",
        kinds=("text", "multimodal"),
        rule="rating at or above the threshold",
        groups=("cxc", "karpathy"),
        expected={"val": 19_722, "test": 19_833},
        pairs=sits_pairs,
        published="39.5k",
        published_parts=("val", "test"),
        remark="all pairs of an image with a caption of another one, those of test among them",
    ),
    Corpus(
        name="cxc_sts",
        title="CxC, STS",
        kinds=("text",),
        rule="rating at or above the threshold",
        groups=("cxc", "karpathy"),
        expected={"val": 44_009, "test": 44_045},
        pairs=sts_pairs,
    ),
)
