"""Captions by image: the sample, the real collections, and names that are none."""

import re
from collections import Counter

import pytest

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, UnknownName
from cxc_eccv.sources.readers.flickr8k import read_flickr8k, split_flickr8k
from cxc_eccv.studies.trainers.caption_groups import caption_groups


def test_groups_of_the_sample_are_its_captions(sample_library):
    groups = caption_groups(sample_library, ["coco/val", "coco/restval"])
    table = (
        sample_library.split("validation").captions.to_pylist() + sample_library.split("restval").captions.to_pylist()
    )
    rows = [(g.image_id, *pair) for g in groups for pair in zip(g.caption_ids, g.texts, strict=True)]
    assert sorted(rows) == sorted((row["image_id"], row["caption_id"], row["text"]) for row in table)


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        (["coko/val"], UnknownName, "did you mean 'coco'"),
        (["coco/vall"], UnknownName, "did you mean 'coco/val'"),
        (["flickr8k/restval"], UnknownName, "flickr8k/all"),
        (["coco/dev"], UnknownName, "coco/val"),
        (["flickr8k/dev", "flickr8k/val"], InvalidOption, "each once"),
        ([], InvalidOption, "at least one part"),
        (["coco/val", "coco/validation"], InvalidOption, "each once"),
    ],
)
def test_wrong_names_are_refused(sample_library, names, error, words):
    with pytest.raises(error, match=re.escape(words)):
        caption_groups(sample_library, names)


def test_real_collections_have_their_published_sizes(real_library):
    sizes = {name: len(caption_groups(real_library, [name])) for name in ("coco/val", "flickr8k/all", "flickr30k/val")}
    assert sizes == {"coco/val": 5000, "flickr8k/all": 8092, "flickr30k/val": 1014}
    captions = real_library.read("flickr8k_tokens", read_flickr8k)
    assert captions.num_rows == 40_460
    assert captions["text"][0].as_py() == "A child in a pink dress is climbing up a set of stairs in an entry way ."


def test_photos_of_both_flickr_collections_become_one_group(real_library):
    names = ["flickr8k/all", "flickr30k/val", "flickr30k/test"]
    groups = caption_groups(real_library, names)
    assert len(groups) == 8092 + 2014 - 485
    assert len({group.image_id for group in groups}) == len(groups)
    counts = Counter(len(group.texts) for group in groups)
    assert counts == {5: 9586, 6: 28, 7: 5, 8: 2}


@pytest.mark.parametrize(
    "line", ["no tab", "1_ab.jpg#0\t ", "x_ab.jpg#0\tA dog .", "1_ab.png#0\tA dog .", "1_ab.jpg.1#0\tA cat ."]
)
def test_malformed_or_repeated_caption_line_is_named(tmp_path, line):
    path = tmp_path / "Flickr8k.token.txt"
    path.write_text(f"1_ab.jpg#0\tA cat .\n{line}\n")
    with pytest.raises(MalformedSource, match="line 2"):
        read_flickr8k(path)


def flickr8k(folder, **lists):
    paths = [folder / name for name in ("Flickr8k.token.txt", *(f"{split}.txt" for split in lists))]
    paths[0].write_text("".join(f"{photo}_ab.jpg#{n}\tA cat {n} .\n" for photo in (3, 1, 2) for n in range(2)))
    for path, names in zip(paths[1:], lists.values(), strict=True):
        path.write_text("".join(f"{name}\n" for name in names))
    return split_flickr8k(paths, *lists)


def test_a_split_of_flickr8k_follows_its_list(tmp_path):
    found = flickr8k(tmp_path, train=["2_ab.jpg", "3_ab.jpg"], test=["1_ab.jpg"])
    assert found["train"].images.to_pylist()[1] == {"image_id": 3, "file_name": "3_ab.jpg", "folder": ""}
    assert found["train"].captions.to_pylist() == [
        {"caption_id": 10 * photo + n, "image_id": photo, "text": f"A cat {n} ."} for photo in (2, 3) for n in range(2)
    ]
    assert found["test"].captions["caption_id"].to_pylist() == [10, 11]


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ({"train": ["1_ab.jpg", "2"]}, "train.txt, line 2"),
        ({"train": ["1_ab.jpg", "4_ab.jpg"]}, "train.txt, line 2"),
        ({"train": ["1_ab.jpg", "1_ab.jpg"]}, "already in a split"),
        ({"train": ["1_ab.jpg"], "test": ["2_ab.jpg", "1_ab.jpg"]}, "test.txt, line 2"),
    ],
)
def test_a_broken_list_of_a_split_is_named(tmp_path, lists, words):
    with pytest.raises(MalformedSource, match=re.escape(words)):
        flickr8k(tmp_path, **lists)


@pytest.mark.parametrize(("split", "images"), [("train", 6000), ("dev", 1000), ("test", 1000)])
def test_the_splits_of_flickr8k_have_their_published_sizes(real_library, split, images):
    groups = caption_groups(real_library, [f"flickr8k/{split}"])
    assert len(groups) == images
    assert {len(group.texts) for group in groups} == {5}


def test_the_splits_of_flickr8k_share_no_image(real_library):
    assert len(caption_groups(real_library, ["flickr8k/train", "flickr8k/dev", "flickr8k/test"])) == 8000
    last = real_library.split("test", "flickr8k")
    assert last.images.to_pylist()[-1]["file_name"] == "3490736665_38710f4b91.jpg"
    assert last.captions["text"][0].as_py() == "The dogs are in the snow in front of a fence ."
    with pytest.raises(DataError, match="restval"):
        real_library.split("restval", "flickr8k")
