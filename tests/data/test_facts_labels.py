"""Published and computed totals of the real files of CxC (arXiv 2004.15020) and ECCV Caption (arXiv 2204.03359)."""

import csv
import json

import numpy as np
import pytest

from cxc_eccv.judgments.evidence.source import Thresholds
from cxc_eccv.judgments.merging import coco_links, cxc_rated, eccv_caption, merge, merged_qrels, rated_pairs
from cxc_eccv.sources.readers.eccv_caption import UNREACHABLE_CAPTIONS, invalid_items
from cxc_eccv.sources.reading import read_ids
from cxc_eccv.types import find_positions

# kind, split: rows per sampling method, mean score per method, positives at the paper's threshold
TOTALS = {
    ("sts", "validation"): ({"c2c_cocaption": 25_000, "c2c_isim": 19_009}, (2.992, 1.368), 14_783),
    ("sts", "test"): ({"c2c_cocaption": 25_000, "c2c_isim": 19_045}, (3.141, 1.375), 16_184),
    ("sis", "validation"): ({"i2i_csim": 42_767}, (2.726,), 28_222),
    ("sis", "test"): ({"i2i_csim": 46_719}, (2.047,), 21_816),
    ("sits", "validation"): ({"c2i_original": 25_000, "c2i_intrasim": 19_722}, (4.850, 3.241), 37_254),
    ("sits", "test"): ({"c2i_original": 25_000, "c2i_intrasim": 19_833}, (4.891, 2.906), 35_585),
}


@pytest.mark.parametrize(("kind", "split"), TOTALS)
def test_rows_means_and_positives(real_library, kind, split):
    table = real_library.split(split).ratings(kind)
    by_method, means, positives = TOTALS[kind, split]
    method = np.array(table["sampling_method"].to_pylist())
    rating = np.asarray(table["rating"])
    assert {name: int((method == name).sum()) for name in by_method} == by_method
    assert sum(by_method.values()) == table.num_rows
    assert [round(float(rating[method == name].mean()), 3) for name in by_method] == list(means)
    assert int((rating >= getattr(Thresholds(), kind)).sum()) == positives


def test_first_middle_and_last_ratings_are_known(real_library):
    """So are the sides of the pairs: sits has images as queries and captions as items."""
    table = real_library.split("test").ratings("sts")
    assert table.slice(0, 1).to_pylist()[0] == {
        "left_id": 411553,
        "right_id": 5142,
        "rating": 1.56,
        "sampling_method": "c2c_isim",
    }
    lines = [real_library.split("validation").ratings("sits").slice(row, 1).to_pylist()[0] for row in (0, 1)]
    assert [(line["left_id"], line["right_id"], line["rating"]) for line in lines] == [
        (648388, 431431, 1.8),
        (346617, 302572, 4.99),
    ]
    pairs = rated_pairs(real_library.split("test"), "sits")
    assert np.unique(pairs.query_ids).size == 5_000
    assert np.unique(pairs.item_ids).size == 25_000
    assert np.unique(rated_pairs(real_library.split("test"), "sis").query_ids).size <= 5_000


@pytest.mark.parametrize(("split", "reversed_rows"), [("validation", 4_506), ("test", 5_726)])
def test_sis_rates_many_pairs_in_both_orders(real_library, split, reversed_rows):
    table = real_library.split(split).ratings("sis")
    left = table["left_id"].to_pylist()
    right = table["right_id"].to_pylist()
    score = dict(zip(zip(left, right, strict=True), table["rating"].to_pylist(), strict=True))
    differences = [abs(score[a, b] - score[b, a]) for a, b in score if (b, a) in score]
    assert len(differences) == reversed_rows
    assert 0.42 <= np.mean(differences) <= 0.445
    assert max(differences) <= 2.3101
    assert not {(a, b) for a, b in score if a == b}


@pytest.mark.parametrize("split", ["validation", "test"])
def test_image_pair_is_positive_if_either_rating_is(real_library, split):
    table = real_library.split(split).ratings("sis")
    rows = zip(table["left_id"].to_pylist(), table["right_id"].to_pylist(), table["rating"].to_pylist(), strict=True)
    expected = {pair for a, b, rating in rows if rating >= 2.5 for pair in ((a, b), (b, a))}
    pairs = merge(real_library.split(split), "i2i")
    found = pairs.positive
    queries = pairs.query_ids[pairs.queries[found]]
    items = pairs.gallery_ids[pairs.items[found]]
    assert set(zip(queries.tolist(), items.tolist(), strict=True)) == expected


@pytest.mark.parametrize(("split", "most_partners"), [("validation", 13), ("test", 12)])
def test_every_caption_is_rated_and_has_few_partners(real_library, split, most_partners):
    table = real_library.split(split).ratings("sts")
    left, left_counts = np.unique(np.asarray(table["left_id"]), return_counts=True)
    assert left.size == 25_000
    assert (left_counts.min(), left_counts.max()) == (1, 3)
    pairs = rated_pairs(real_library.split(split), "sts")
    _, partners = np.unique(pairs.query_ids, return_counts=True)
    assert (partners.min(), partners.max()) == (2, most_partners)


def test_rated_pairs_alone_drop_29_original_links(real_library):
    rated = cxc_rated(real_library.split("test"), "t2i")
    assert rated.query_ids.size == 24_972
    assert rated.indices.size == 35_585
    links = coco_links(real_library.split("test"), "t2i")
    assert (links.query_ids.size, links.indices.size) == (25_000, 25_000)
    pairs = merge(real_library.split("test"), "t2i", sources=("coco", "cxc"))
    assert (pairs.ratings[pairs.conflict] < 3).tolist() == [True] * 29
    union = merged_qrels(real_library.split("test"), "i2t")
    assert union.indices.size == 25_000 + 10_614
    strict = merged_qrels(real_library.split("test"), "i2t", policy="strict")
    override = merged_qrels(real_library.split("test"), "i2t", policy="override")
    assert strict.indices.size == override.indices.size == 25_000 + 10_614 - 29


def test_text_text_positives_are_cocaptions_and_rated_pairs(real_library):
    table = real_library.split("test").ratings("sts")
    groups: dict[int, list[int]] = {}
    for row in real_library.split("test").captions.to_pylist():
        groups.setdefault(row["image_id"], []).append(row["caption_id"])
    positives = {(a, b) for group in groups.values() for a in group for b in group if a != b}
    rows = zip(table["left_id"].to_pylist(), table["right_id"].to_pylist(), table["rating"].to_pylist(), strict=True)
    positives |= {pair for a, b, rating in rows if rating >= 3 for pair in ((a, b), (b, a))}
    qrels = merged_qrels(real_library.split("test"), "t2t")
    found = zip(qrels.query_ids[qrels.rows].tolist(), qrels.gallery_ids[qrels.indices].tolist(), strict=True)
    assert set(found) == positives
    assert qrels.without_self


@pytest.mark.parametrize(
    ("direction", "queries", "positives", "smallest", "largest"),
    [("i2t", 1_261, 22_550, 6, 48), ("t2i", 1_332, 11_279, 1, 19)],
)
def test_totals_of_eccv_caption(real_library, direction, queries, positives, smallest, largest):
    qrels = eccv_caption(real_library.split("test"), direction)
    assert qrels.query_ids.size == queries
    assert int(qrels.n_positives.sum()) == positives
    assert (qrels.n_positives.min(), qrels.n_positives.max()) == (smallest, largest)
    assert qrels.gallery_ids.size == (25_000 if direction == "i2t" else 5_000)


def test_eccv_directions_are_separate_and_keep_unreachable_positives(real_library):
    """Two positives are captions outside the split; they count towards R."""
    by_image = {tuple(row.values()) for row in real_library.split("test").eccv("eccv", "i2t").to_pylist()}
    by_caption = {tuple(row.values())[::-1] for row in real_library.split("test").eccv("eccv", "t2i").to_pylist()}
    assert len(by_image & by_caption) == 6_089
    qrels = eccv_caption(real_library.split("test"), "i2t")
    rows = np.flatnonzero(qrels.unreachable)
    assert qrels.query_ids[rows].tolist() == sorted([575916, 421999], key=qrels.query_ids.tolist().index)
    assert qrels.unreachable.sum() == len(UNREACHABLE_CAPTIONS)
    pairs = merge(real_library.split("test"), "i2t", sources=("eccv",))
    assert pairs.left_out == {"ECCV Caption positives outside the split's captions": 2}


def read_verified(library):
    """(image, caption) of the lists of images and of captions of ECCV Caption, and of links and CxC, from raw bytes."""
    by_image = json.loads(library.path("eccv_image_to_caption").read_bytes())
    by_caption = json.loads(library.path("eccv_caption_to_image").read_bytes())
    of_images = {(int(image), caption) for image, captions in by_image.items() for caption in captions}
    of_captions = {(image, int(caption)) for caption, images in by_caption.items() for image in images}
    content = library.split("test")
    known = set(zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True))
    inside = {caption for _, caption in known}
    with library.path("sits_test").open(newline="") as file:
        for row in csv.DictReader(file):
            if float(row["agg_score"]) >= 3:
                known.add((int(row["image"][-16:-4]), int(row["caption"].rpartition(":")[2])))
    return ({pair for pair in pairs if pair[1] in inside} for pairs in (of_images, of_captions, known))


def test_union_has_verified_pairs_of_both_directions(real_library):
    of_images, of_captions, known = read_verified(real_library)
    assert (len(of_images - of_captions - known), len(of_captions - of_images - known)) == (9_159, 4_900)
    for direction, turn in (("i2t", 1), ("t2i", -1)):
        qrels = merged_qrels(real_library.split("test"), direction, sources=("coco", "cxc", "eccv"))
        queries = qrels.query_ids[qrels.rows].tolist()
        items = qrels.gallery_ids[qrels.indices].tolist()
        found = {pair[::turn] for pair in zip(queries, items, strict=True)}
        assert found == of_images | of_captions | known
        assert (qrels.query_ids.size, len(found)) == (5_000 if turn == 1 else 25_000, 54_157)


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_lists_of_its_queries_lack_no_verified_pair(real_library, direction):
    """So on these queries ECCV Caption alone and its task have the same positives, but for captions outside."""
    own = eccv_caption(real_library.split("test"), direction)
    union = merged_qrels(real_library.split("test"), direction, sources=("eccv",))
    for field in ("query_ids", "gallery_ids", "indptr", "indices"):
        assert np.array_equal(getattr(own, field), getattr(union, field))


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_its_copies_of_cxc_and_coco_equal_ours(real_library, direction):
    for labels, ours in (
        ("cxc", cxc_rated(real_library.split("test"), direction)),
        ("original", coco_links(real_library.split("test"), direction)),
    ):
        theirs = {tuple(row.values()) for row in real_library.split("test").eccv(labels, direction).to_pylist()}
        pairs = zip(ours.query_ids[ours.rows].tolist(), ours.gallery_ids[ours.indices].tolist(), strict=True)
        assert set(pairs) == theirs


def test_invalid_items_and_the_order_of_folds(real_library):
    table = invalid_items().to_pylist()
    captions = {row["id"] for row in table if row["kind"] == "caption"}
    assert len(captions) == 18 + 14
    assert captions <= set(real_library.split("test").caption_ids.tolist())
    assert [row["id"] for row in table if row["kind"] == "image"] == [578492]
    qrels = eccv_caption(real_library.split("test"), "i2t")
    assert 578492 not in qrels.query_ids
    positives = np.unique(qrels.gallery_ids[qrels.indices])
    assert int(find_positions(list(captions), positives)[1].sum()) == 3
    np.testing.assert_array_equal(real_library.read("coco_test_ids", read_ids), real_library.split("test").caption_ids)
