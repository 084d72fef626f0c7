"""The sentence that says which data numbers were computed on."""

import pytest

from cxc_eccv.sources.catalog import DRAWINGS, describe_data


@pytest.mark.parametrize(
    ("data", "collection", "sentence"),
    [
        ({"edition": "official"}, "COCO", "test split of COCO (official data)"),
        ({"edition": "official"}, "", "test split of official data"),
        (
            {"edition": "official", "modified": {"sts_val": {}}},
            "COCO",
            "test split of COCO, modified data: not the official data",
        ),
        ({"edition": "mine"}, "Flickr30k", "test split of Flickr30k, edition 'mine': not the official data"),
        ({"edition": "sample"}, "COCO", "test split of the embedded sample (60 drawings): not results on COCO"),
        ({}, "COCO", ""),
    ],
)
def test_the_sentence_names_split_and_edition(data, collection, sentence):
    assert describe_data({"data": data, "split": "test"}, collection) == sentence


def test_the_sample_has_as_many_drawings_as_the_sentence_says(sample_library):
    sizes = {split: sample_library.karpathy(split).image_ids.size for split in sample_library.splits}
    assert sizes == DRAWINGS
    assert describe_data({"data": {"edition": "sample"}}) == "embedded sample (190 drawings): not results on COCO"
