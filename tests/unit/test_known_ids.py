"""Which items of a run count as known: those of the data at hand, whatever their split."""

import numpy as np
import pytest

from cxc_eccv.errors import UnknownIds
from cxc_eccv.evaluation.known_ids import Asked, refuse_unknown_ids
from cxc_eccv.registry import task
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.eccv import UNREACHABLE_CAPTIONS
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.collection import COCO, FLICKR30K
from cxc_eccv.types import Embeddings


@pytest.fixture(scope="module")
def asked(sample_library):
    judgments = task("coco_5k").judgments(sample_library, "test", "i2t")
    return [Asked("i2t", judgments.query_ids, judgments.gallery_ids)]


def run_of(images, captions):
    return EmbeddingsRun(*(Embeddings(ids, np.ones((len(ids), 1))) for ids in (images, captions)))


def test_every_split_and_the_unreachable_captions_are_known(sample_library, asked):
    images, captions = (
        np.concatenate([table(split)[column].to_numpy() for split in sample_library.splits])
        for table, column in ((sample_library.images, "image_id"), (sample_library.captions, "caption_id"))
    )
    refuse_unknown_ids(run_of(images, [*captions, *UNREACHABLE_CAPTIONS]), asked, sample_library, [COCO])


def test_strangers_are_counted_and_the_first_three_named(sample_library, asked):
    judgments = asked[0]
    strangers = [10**9 + place for place in range(5)]
    run = run_of([*judgments.query_ids, *strangers], judgments.gallery_ids)
    with pytest.raises(UnknownIds, match=r"5 of 65 images .* the first: 1000000000, 1000000001, 1000000002\. Use the"):
        refuse_unknown_ids(run, asked, sample_library, [COCO])


def test_captions_among_the_images_look_swapped(sample_library, asked):
    judgments = asked[0]
    run = run_of(np.concatenate([judgments.query_ids, judgments.gallery_ids]), judgments.gallery_ids)
    with pytest.raises(UnknownIds, match="These ids are captions: images and captions look swapped"):
        refuse_unknown_ids(run, asked, sample_library, [COCO])


def test_items_of_a_judged_data_set_are_known_without_coco(tmp_path):
    """Flickr30k needs no COCO file at hand."""
    library = Library(tmp_path, offline=True)
    asked = [Asked("i2t", np.array([10**9]), np.array([7]))]
    refuse_unknown_ids(run_of([10**9], [7]), asked, library, [FLICKR30K])
    with pytest.raises(UnknownIds, match="1 of 2 images"):
        refuse_unknown_ids(run_of([10**9, 5], [7]), asked, library, [FLICKR30K])


def test_nothing_ranked_means_nothing_to_compare_with(sample_library):
    refuse_unknown_ids(run_of([10**9], [10**9]), [], sample_library, [COCO])
