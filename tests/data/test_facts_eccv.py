"""Published and computed totals of the real ECCV Caption files (arXiv 2204.03359)."""

import numpy as np
import pytest

from cxc_eccv.judgments.qrels import coco_links, cxc_rated, eccv_caption, merge
from cxc_eccv.sources.readers.eccv import UNREACHABLE_CAPTIONS, invalid_items
from cxc_eccv.types import positions_of


@pytest.mark.parametrize(
    ("direction", "queries", "positives", "smallest", "largest"),
    [("i2t", 1_261, 22_550, 6, 48), ("t2i", 1_332, 11_279, 1, 19)],
)
def test_totals(real_library, direction, queries, positives, smallest, largest):
    qrels = eccv_caption(real_library, direction)
    assert qrels.query_ids.size == queries
    assert int(qrels.n_positives.sum()) == positives
    assert (qrels.n_positives.min(), qrels.n_positives.max()) == (smallest, largest)
    assert qrels.gallery_ids.size == (25_000 if direction == "i2t" else 5_000)


def test_directions_are_separate_judgments(real_library):
    by_image = {tuple(row.values()) for row in real_library.eccv("eccv", "i2t").to_pylist()}
    by_caption = {tuple(row.values())[::-1] for row in real_library.eccv("eccv", "t2i").to_pylist()}
    assert len(by_image & by_caption) == 6_089


def test_two_positives_are_unreachable_and_still_count(real_library):
    qrels = eccv_caption(real_library, "i2t")
    rows = np.flatnonzero(qrels.unreachable)
    assert qrels.query_ids[rows].tolist() == sorted([575916, 421999], key=qrels.query_ids.tolist().index)
    assert qrels.unreachable.sum() == len(UNREACHABLE_CAPTIONS)
    pairs = merge(real_library, "test", "i2t", sources=("eccv",))
    assert pairs.left_out == {"ECCV Caption positives outside the split's captions": 2}


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_its_copies_of_cxc_and_coco_equal_ours(real_library, direction):
    for labels, ours in (
        ("cxc", cxc_rated(real_library, "test", direction)),
        ("original", coco_links(real_library, "test", direction)),
    ):
        theirs = {tuple(row.values()) for row in real_library.eccv(labels, direction).to_pylist()}
        pairs = zip(ours.query_ids[ours.rows].tolist(), ours.gallery_ids[ours.indices].tolist(), strict=True)
        assert set(pairs) == theirs


def test_invalid_items(real_library):
    table = invalid_items().to_pylist()
    captions = {row["id"] for row in table if row["kind"] == "caption"}
    assert len(captions) == 18 + 14
    assert captions <= set(real_library.karpathy("test").caption_ids.tolist())
    assert [row["id"] for row in table if row["kind"] == "image"] == [578492]
    qrels = eccv_caption(real_library, "i2t")
    assert 578492 not in qrels.query_ids
    positives = np.unique(qrels.gallery_ids[qrels.indices])
    assert int(positions_of(list(captions), positives)[1].sum()) == 3


def test_fold_order_is_the_karpathy_order(real_library):
    np.testing.assert_array_equal(real_library.fold_order(), real_library.karpathy("test").caption_ids)
