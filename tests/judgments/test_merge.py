"""Merge rules on a world small enough to check by hand."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_world import TinyWorld

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing, UnknownName
from cxc_eccv.judgments.evidence import source
from cxc_eccv.judgments.evidence.source import COCO_SOURCE, Thresholds, co_captions, label_sources, match_hypotheses
from cxc_eccv.judgments.merging import POLICIES, eccv_caption, merge, merged_qrels
from cxc_eccv.judgments.plausible import category_distances


@pytest.fixture
def world(tmp_path):
    return TinyWorld(tmp_path)


def rows_of(pairs):
    """{(query, item): (sources that judged, rules that say positive, positive, conflict)}."""
    table = {}
    for n, (query, item) in enumerate(zip(pairs.queries, pairs.items, strict=True)):
        names = np.array(pairs.sources)
        rules = np.array(pairs.rules)
        table[int(pairs.query_ids[query]), int(pairs.gallery_ids[item])] = (
            tuple(names[pairs.judged[n]]),
            tuple(rules[pairs.said_positive[n]]),
            bool(pairs.positive[n]),
            bool(pairs.conflict[n]),
        )
    return table


def test_provenance_of_every_image_to_text_pair(world):
    table = rows_of(merge(world.write().split("test"), "i2t"))
    link = "coco: original link"
    rated = "cxc: sits >= 3"
    verified = "eccv: verified positive"
    assert table == {
        (1, 11): (("coco", "cxc", "eccv"), (link, rated, verified), True, False),
        (1, 12): (("coco", "cxc"), (link,), True, True),
        (1, 21): (("cxc", "eccv"), (rated, verified), True, False),  # ECCV Caption has it for caption 21 alone
        (1, 31): (("cxc", "eccv", "entailment"), (verified,), True, True),
        (2, 21): (("coco", "eccv"), (link, verified), True, False),
        (2, 22): (("coco",), (link,), True, False),
        (3, 11): (("entailment",), ("entailment: label 1",), True, False),
        (3, 12): (("entailment",), ("entailment: label 1",), True, False),
        (3, 31): (("coco",), (link,), True, False),
        (3, 32): (("coco",), (link,), True, False),
    }


@pytest.mark.parametrize(
    ("policy", "denied"), [("union", set()), ("strict", {(1, 12), (1, 31)}), ("override", {(1, 12), (1, 31)})]
)
def test_policies(world, policy, denied):
    table = rows_of(merge(world.write().split("test"), "i2t", policy=policy))
    assert {pair for pair, (_, _, positive, _) in table.items() if not positive} == denied


def test_override_lets_the_latest_source_decide(world):
    """ECCV says (1, 31) matches, CxC rated it 1.0: later ECCV wins unless an entailment label follows."""
    library = world.write()
    for sources, positive in ((("eccv", "cxc"), True), (("cxc", "eccv", "entailment"), False)):
        table = rows_of(merge(library.split("test"), "i2t", sources=sources, policy="override"))
        assert table[1, 31][2] is positive
    assert not rows_of(merge(library.split("test"), "i2t", sources=("cxc", "eccv"), policy="strict"))[1, 31][2]


def test_text_to_text_judges_both_orders(world):
    table = rows_of(merge(world.write().split("test"), "t2t"))
    together = "coco: captions of one image"
    rated = "cxc: sts >= 3"
    assert table[11, 21] == table[21, 11] == (("cxc",), (rated,), True, False)
    assert table[12, 31] == (("cxc",), (), False, False)
    assert table[11, 12] == (("coco",), (together,), True, False)
    assert len(table) == 6 + 4


def test_image_to_image_takes_either_rating(world):
    pairs = merge(world.write().split("test"), "i2i")
    table = rows_of(pairs)
    assert table[1, 2] == table[2, 1] == (("cxc",), ("cxc: sis >= 2.5",), True, True)
    assert table[1, 3][2] is False
    rating = {
        (int(pairs.query_ids[q]), int(pairs.gallery_ids[i])): (forward, backward)
        for q, i, forward, backward in zip(pairs.queries, pairs.items, pairs.ratings, pairs.reverse, strict=True)
    }
    assert rating[1, 2] == (2.4, 2.6)
    assert rating[2, 1] == (2.6, 2.4)
    assert rating[1, 3][0] == 1.0
    assert np.isnan(rating[1, 3][1])
    assert rating[3, 1][1] == 1.0


def test_queries_without_a_positive_are_left_out(world):
    qrels = merged_qrels(world.write().split("test"), "i2i")
    assert qrels.query_ids.tolist() == [1, 2]
    assert qrels.gallery_ids.tolist() == [1, 2, 3]


def test_thresholds_are_parameters(world):
    library = world.write()
    table = rows_of(merge(library.split("test"), "i2t", sources=("cxc",), thresholds=Thresholds(sits=2.9)))
    assert table[1, 12] == (("cxc",), ("cxc: sits >= 2.9",), True, False)
    with pytest.raises(InvalidOption, match=r"sis is 0; .*0 to 5"):
        Thresholds(sis=0)


def test_eccv_directions_keep_their_own_queries(world):
    library = world.write()
    assert eccv_caption(library.split("test"), "i2t").query_ids.tolist() == [1, 2]
    assert eccv_caption(library.split("test"), "t2i").query_ids.tolist() == [21]


@pytest.mark.parametrize("name", ["coco", "cxc", "eccv", "entailment"])
def test_pair_is_judged_alike_in_both_directions(world, name):
    split = world.write().split("test")
    by_image, by_caption = (rows_of(merge(split, direction, sources=(name,))) for direction in ("i2t", "t2i"))
    assert by_image == {pair[::-1]: said for pair, said in by_caption.items()}


def test_union_asks_only_searched_queries(world):
    """ECCV Caption lists caption 21 of image 2; caption 11 and 31 occur as items, without their other matches."""
    split = world.write().split("test")
    alone = merged_qrels(split, "t2i", sources=("eccv",))
    assert (alone.query_ids.tolist(), alone.indices.tolist()) == ([21], [0, 1])
    both = merged_qrels(split, "t2i", sources=("coco", "eccv"))
    assert both.query_ids.tolist() == split.caption_ids.tolist()
    assert both.gallery_ids[both.indices[both.rows == both.query_ids.tolist().index(31)]].tolist() == [1, 3]


def test_entailment_labels_match_by_id_or_text(world):
    library = world.write()
    pairs = library.split("test").entailment()
    rows, left_out = match_hypotheses(library.split("test"), pairs)
    assert rows == {(1, 31): 0, (3, 11): 1, (3, 12): 2}
    assert left_out == {}


def test_unmatched_and_repeated_labels_are_counted(world):
    world.entailment = ((9, 31, 1), (1, 99, 1), (3, 12, 1), (3, None, 0))
    library = world.write()
    left_out = merge(library.split("test"), "i2t", sources=("entailment",)).left_out
    assert sorted(left_out.values()) == [1, 2]


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"sts": ((11, 99, 1.0),)}, ["sts_test.csv", "line 2", "'caption2'", "unknown id 99", "caption of the test"]),
        ({"sits": ((11, 9, 1.0),)}, ["sits_test.csv", "'image'", "unknown id 9", "image of the test"]),
        ({"eccv_i2t": {9: (11,)}}, ["eccv_image_to_caption.json", "query_id", "unknown image id 9"]),
        ({"eccv_i2t": {1: (99,)}}, ["eccv_image_to_caption.json", "item_id", "unknown caption id 99"]),
    ],
    ids=["sts", "sits", "eccv-query", "eccv-item"],
)
def test_unknown_ids_are_refused(world, change, parts):
    for name, value in change.items():
        setattr(world, name, value)
    library = world.write()
    with pytest.raises(MalformedSource) as caught:
        [merge(library.split("test"), direction) for direction in ("i2t", "t2t")]
    for part in parts:
        assert part in str(caught.value)


def test_documented_unreachable_captions_are_counted(world):
    world.eccv_i2t = {1: (11, 144675)}
    library = world.write()
    assert eccv_caption(library.split("test"), "i2t").unreachable.tolist() == [1]
    assert merge(library.split("test"), "i2t").left_out == {"ECCV Caption positives outside the split's captions": 1}


def test_wrong_names(world):
    library = world.write()
    for call in (
        lambda: merge(library.split("test"), "x2t"),
        lambda: merge(library.split("test"), "i2t", sources=("cocos",)),
        lambda: merge(library.split("test"), "i2t", policy="unite"),
    ):
        with pytest.raises(UnknownName, match=r"did you mean|Known:"):
            call()
    with pytest.raises(InvalidOption, match="no source"):
        merge(library.split("test"), "i2t", sources=())
    with pytest.raises(DataError, match="which hold test"):
        merge(library.split("validation"), "i2t")
    with pytest.raises(SourceMissing, match="instances_val2014"):
        library.split("test").categories()
    assert POLICIES == ("union", "strict", "override")


def test_added_source_counts_where_it_is_named(world, monkeypatch):
    split = world.write().split("test")
    before = merge(split, "i2t")
    theirs = replace(
        COCO_SOURCE, name="theirs", evidence=lambda split, *_: split.library.read("entailment_f30k_test", str)
    )
    every = {**label_sources(), "theirs": theirs}
    monkeypatch.setattr(source, "label_sources", lambda: every)
    after = merge(split, "i2t")
    assert after.sources == before.sources
    assert after.positive.tolist() == before.positive.tolist()
    with pytest.raises(SourceMissing, match="entailment_f30k_test"):
        merge(split, "i2t", sources=("coco", "theirs"))


def test_missing_rating_file_is_an_error(world):
    library = world.write()
    (world.folder / "cxc/sits_test.csv").unlink()
    with pytest.raises(SourceMissing, match="sits_test"):
        merge(library.split("test"), "i2t")


def test_co_captions_equal_the_double_loop():
    groups = np.array([4, 4, 9, 4, 7, 9])
    expected = {(a, b) for a in range(6) for b in range(6) if a != b and groups[a] == groups[b]}
    left, right = co_captions(groups)
    assert set(zip(left.tolist(), right.tolist(), strict=True)) == expected
    assert left.size == len(expected)


def test_category_distances_equal_set_differences():
    present = np.random.default_rng(0).random((20, 80)) < 0.1
    sets = [set(np.flatnonzero(row)) for row in present]
    expected = [[len(a ^ b) for b in sets] for a in sets]
    assert category_distances(present).tolist() == expected
