"""Totals of the Karpathy splits, category sets and entailment files."""

from collections import Counter

import numpy as np
import pytest
from row_measures import count_matches

from cxc_eccv.judgments.merging import entailed_pairs
from cxc_eccv.judgments.plausible import category_matches
from cxc_eccv.sources.download import fetch
from cxc_eccv.sources.readers.coco_instances import read_category_sets
from cxc_eccv.sources.readers.entailment_labels import read_entailment
from cxc_eccv.sources.reading import read_ids, read_json


def test_images_and_captions_and_those_that_are_identical(real_library):
    for split in ("validation", "test"):
        content = real_library.split(split)
        assert (content.images.num_rows, content.captions.num_rows) == (5_000, 25_000)
        assert set(Counter(content.caption_image_ids.tolist()).values()) == {5}
    assert content.images["file_name"][0].as_py() == "COCO_val2014_000000391895.jpg"
    assert content.caption_ids[:5].tolist() == [770337, 771687, 772707, 776154, 781998]
    # The trailing blank is COCO's.
    assert content.captions["text"][0].as_py() == "A man with a red helmet on a small moped on a dirt road. "
    assert any("\n" in text for text in content.captions["text"].to_pylist())
    groups: dict[str, list[int]] = {}
    for row in real_library.split("test").captions.to_pylist():
        groups.setdefault(row["text"], []).append(row["image_id"])
    shared = [images for images in groups.values() if len(set(images)) > 1]
    assert (len(shared), sum(map(len, shared))) == (109, 261)
    sizes = {split: real_library.split(split, "flickr30k") for split in ("validation", "test")}
    assert {s: (c.images.num_rows, c.captions.num_rows) for s, c in sizes.items()} == {
        "validation": (1_014, 5_070),
        "test": (1_000, 5_000),
    }
    assert sizes["test"].image_ids[0] == 1007129816


@pytest.mark.parametrize(
    ("name", "size"),
    [("train", 413_915), ("restval", 152_520), ("dev", 25_000), ("test", 25_000)],
)
def test_pcme_id_lists(real_library, name, size):
    ids = np.asarray(read_ids(fetch(f"pcme_coco_{name}_ids")))
    assert ids.size == size
    if name in ("dev", "test"):
        split = "validation" if name == "dev" else "test"
        np.testing.assert_array_equal(ids, real_library.split(split).caption_ids)


@pytest.mark.parametrize(("split", "without"), [("validation", 52), ("test", 48)])
def test_images_without_category(real_library, split, without):
    sets = real_library.split(split).categories()
    assert sets.present.shape == (5_000, 80)
    assert int((~sets.present.any(axis=1)).sum()) == without


@pytest.mark.parametrize(("direction", "largest"), [("i2t", (560, 4_720, 13_385)), ("t2i", (112, 944, 2_677))])
def test_plausible_matches(real_library, direction, largest):
    matches = category_matches(real_library.split("test"), direction)
    assert tuple(int(count_matches(matches, zeta).max()) for zeta in (0, 1, 2)) == largest
    assert matches.query_ids.size == (4_952 if direction == "i2t" else 4_952 * 5)


def test_full_annotations_agree_with_the_category_sets(real_library):
    path = fetch("instances_subset")
    instances = read_json(path)["annotations"]
    # One of its 63 images shows no instance.
    assert (len(instances), len({instance["image_id"] for instance in instances})) == (582, 62)
    full = read_category_sets(path)
    for split in ("validation", "test"):
        derived = real_library.split(split).categories()
        here = np.intersect1d(full.image_ids, derived.image_ids)
        np.testing.assert_array_equal(full.of(here).present, derived.of(here).present)


@pytest.mark.parametrize(("name", "rows"), [("dev", 14_339), ("test", 14_740)])
def test_esnlive(real_library, name, rows):
    pairs = read_entailment(fetch(f"esnlive_{name}"))
    assert pairs.table.num_rows + sum(pairs.left_out.values()) == rows
    assert len(set(pairs.table["image"].to_pylist())) == 1_000
    labels = Counter(zip(pairs.table["gold_label"].to_pylist(), pairs.table["label"].to_pylist(), strict=True))
    assert set(labels) == {("entailment", 1), ("neutral", 0), ("contradiction", 0)}


def test_derived_entailment_pairs_match_the_papers_count(real_library):
    """The multi-modal entailment paper trains on 39.5k CxC pairs: SITS pairs other than original links."""
    total = 0
    for split in ("validation", "test"):
        pairs = entailed_pairs(real_library.split(split))
        content = real_library.split(split)
        own = content.caption_image_ids[pairs.items] == pairs.query_ids[pairs.queries]
        total += int((pairs.judged[:, pairs.sources.index("cxc")] & ~own).sum())
    assert total == 19_722 + 19_833
