"""Captions by image: the sample, the real collections, and names that are none."""

import re
from collections import Counter

import pytest

from cxc_eccv.baselines.caption_groups import caption_groups
from cxc_eccv.errors import InvalidOption, MalformedSource, UnknownName
from cxc_eccv.sources.flickr8k import read_flickr8k


def test_groups_of_the_sample_are_its_captions(sample_library):
    groups = caption_groups(sample_library, ["coco/val", "coco/restval"])
    table = sample_library.captions("validation").to_pylist() + sample_library.captions("restval").to_pylist()
    rows = [(g.image_id, *pair) for g in groups for pair in zip(g.caption_ids, g.texts, strict=True)]
    assert sorted(rows) == sorted((row["image_id"], row["caption_id"], row["text"]) for row in table)


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        (["coko/val"], UnknownName, "did you mean 'coco'"),
        (["coco/vall"], UnknownName, "did you mean 'coco/val'"),
        (["flickr8k/val"], UnknownName, "flickr8k/all"),
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
    captions = real_library.flickr8k()
    assert captions.num_rows == 40_460
    assert captions["text"][0].as_py() == "A child in a pink dress is climbing up a set of stairs in an entry way ."


def test_photos_of_both_flickr_collections_become_one_group(real_library):
    names = ["flickr8k/all", "flickr30k/val", "flickr30k/test"]
    groups = caption_groups(real_library, names)
    assert len(groups) == 8092 + 2014 - 485
    assert len({group.image_id for group in groups}) == len(groups)
    counts = Counter(len(group.texts) for group in groups)
    assert counts == {5: 9586, 6: 28, 7: 5, 8: 2}


@pytest.mark.parametrize("line", ["no tab", "1_ab.jpg#0\t ", "x_ab.jpg#0\tA dog .", "1_ab.png#0\tA dog ."])
def test_a_malformed_line_is_named(tmp_path, line):
    path = tmp_path / "Flickr8k.token.txt"
    path.write_text(f"1_ab.jpg#0\tA cat .\n{line}\n")
    with pytest.raises(MalformedSource, match="line 2"):
        read_flickr8k(path)


def test_a_caption_given_twice_is_named(tmp_path):
    path = tmp_path / "Flickr8k.token.txt"
    path.write_text("1_ab.jpg#0\tA cat .\n1_ab.jpg.1#0\tA cat .\n")
    with pytest.raises(MalformedSource, match="line 2"):
        read_flickr8k(path)
