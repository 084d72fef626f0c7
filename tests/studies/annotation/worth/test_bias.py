"""Annotator bias and diversity: what follows from Table E.1 of the ECCV Caption paper, and loops by hand."""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import kendalltau

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.studies.annotation.worth.bias import (
    bias_by_size,
    correlate_tops,
    join_proposals,
    measure_bias,
    measure_gains,
    place_first,
    score_sets,
)
from cxc_eccv.studies.annotation.worth.sets import Verified, find_searched
from cxc_eccv.types import TopK

MODELS = ("PVSE", "VSRN", "PCME", "ViLT", "CLIP")
RECALL = [
    [76.5, 63.6, 67.6, 45.3, 42.0, 76.6],
    [68.0, 80.1, 69.0, 51.1, 47.2, 80.1],
    [67.7, 64.3, 77.3, 46.0, 44.1, 77.4],
    [59.5, 59.8, 58.8, 62.0, 49.3, 72.4],
    [51.7, 51.5, 52.6, 42.8, 49.3, 64.3],
]
R_PRECISION = [
    [53.5, 39.4, 42.1, 30.1, 31.3, 42.1],
    [41.8, 55.9, 41.6, 33.8, 35.9, 43.2],
    [42.9, 39.9, 54.8, 31.8, 33.8, 43.1],
    [34.0, 34.5, 33.9, 45.5, 37.0, 35.8],
    [31.0, 31.5, 31.9, 29.6, 39.6, 32.1],
]
"""Rows are models, columns the annotator; the last is all five."""


def column(table, place):
    return dict(zip(MODELS, (row[place] for row in table), strict=True))


def biases(table):
    return [measure_bias(column(table, place), column(table, 5), [model]) for place, model in enumerate(MODELS)]


@pytest.mark.reference
def test_the_biases_that_follow_from_table_e1():
    assert [round(bias["all"], 2) for bias in biases(RECALL)] == [9.48, 10.3, 9.1, 24.72, 27.78]
    assert [round(bias["all"], 2) for bias in biases(R_PRECISION)] == [3.18, 4.1, 3.08, 8.98, 7.22]
    full, pvse = column(RECALL, 5), biases(RECALL)[0]
    assert measure_bias(full, full, MODELS) == {"all": 0, "own": 0, "others": None}
    assert (round(pvse["own"], 2), round(pvse["others"], 3)) == (0.1, 11.825)


def test_sets_of_one_size_count_alike():
    """Each model gains 1 where its proposals were verified, as in a loop over all sets by hand."""

    def score(own):
        return {model: float(model in own) + len(own) for model in MODELS}

    found = bias_by_size(MODELS, score)
    assert list(found) == [1, 2, 3, 4]
    for size, bias in found.items():
        assert bias["own"] == 5 - size
        assert bias["others"] == 6 - size
        assert bias["all"] == pytest.approx((size * (5 - size) + (5 - size) * (6 - size)) / 5)


def test_gains_are_means_over_the_sets_that_a_model_can_join():
    random = np.random.default_rng(3)
    scores = {
        frozenset(own): dict(zip(MODELS, random.random(5).tolist(), strict=True))
        for size in range(1, 6)
        for own in combinations(MODELS, size)
    }
    found = measure_gains(MODELS, scores.__getitem__)
    for model, gain in found.items():
        own = [scores[s | {model}][model] - scores[s][model] for s in scores if model not in s]
        joined = [(s, other) for s in scores if model not in s for other in MODELS if other != model]
        others = [scores[s | {model}][other] - scores[s][other] for s, other in joined]
        assert len(own) == 15
        assert (gain["own"], gain["others"]) == (pytest.approx(np.mean(own)), pytest.approx(np.mean(others)))


GALLERY = np.arange(100, 112)
ANNOTATORS = ("a", "b", "c")


@pytest.fixture(scope="module")
def world():
    """Three models that each propose the first three images for captions, and answers to most of it."""
    random = np.random.default_rng(5)
    queries = np.arange(1, 31)
    ids = {name: np.stack([random.permutation(GALLERY) for _ in queries]) for name in (*ANNOTATORS, "late")}
    tops = {name: TopK(queries, own) for name, own in ids.items()}
    proposals = {}
    for name in ANNOTATORS:
        for query, own in zip(queries.tolist(), ids[name][:, :3].tolist(), strict=True):
            for rank, item in enumerate(own, start=1):
                proposals.setdefault((query, item), []).append({"model": name, "direction": "t2i", "rank": rank})
    proposals[7, 111] = [*proposals.get((7, 111), []), {"model": "a", "direction": "i2t", "rank": 1}]
    proposals[99, 100] = [{"model": "b", "direction": "i2t", "rank": 1}]  # a caption that was no query itself
    pairs = sorted(proposals)
    known = {pair for pair in pairs if random.random() < 0.2}
    answered = [pair for pair in pairs if pair not in known and random.random() < 0.9]
    gains = {pair: random.choice([0.0, 0.5, 1.0]) for pair in answered} | dict.fromkeys(known, 1.0)
    gains[1, 999] = 1.0  # drawn, and not proposed by anybody
    table = pa.table(
        {
            "image_id": [item for _, item in pairs],
            "caption_id": [query for query, _ in pairs],
            "proposals": [proposals[pair] for pair in pairs],
            "known": [["coco"] if pair in known else [] for pair in pairs],
        }
    )
    found = list(gains)
    values = np.array([gains[pair] for pair in found])
    columns = [np.array(column) for column in zip(*found, strict=True)]
    verified = Verified(*columns, values > 0, values, np.array([pair not in known for pair in found]))
    return tops, table, verified, proposals, gains


def test_scores_on_the_labels_of_every_set_of_annotators(world):
    """Equations E.2 to E.4 pair by pair: a label is in a set's if one of the set proposed its pair."""
    tops, table, verified, proposals, gains = world
    labels = join_proposals(verified, table, GALLERY, "t2i")
    assert labels.annotators == ANNOTATORS

    def gain_of(query, item, own):
        proposers = {one["model"] for one in proposals.get((query, item), [])}
        return gains.get((query, item), 0.0) if proposers & own else 0.0

    everybody = frozenset(ANNOTATORS)
    queries = [q for q in range(1, 31) if any(gain_of(q, item, everybody) for item in GALLERY.tolist())]
    assert labels.judgments.query_ids.tolist() == queries
    for name, top in tops.items():
        kept = TopK(np.array(queries), top.ids[np.isin(top.query_ids, queries)])
        found = score_sets(kept, labels)
        for number in range(1, 8):
            own = labels.members(number)
            for place, query in enumerate(queries):
                relevant = [item for item in GALLERY.tolist() if gain_of(query, item, own)]
                ranked = [gain_of(query, item, own) for item in kept.ids[place].tolist()]
                precision = sum(ranked[: len(relevant)]) / len(relevant) if relevant else 0
                assert labels.sizes[number - 1, place] == len(relevant)
                assert found["recall_at_1"][number - 1, place] == ranked[0], (name, own, query)
                assert found["r_precision"][number - 1, place] == pytest.approx(precision)


def test_what_was_left_out_is_counted(world):
    _, table, verified, proposals, gains = world
    labels = join_proposals(verified, table, GALLERY, "t2i")
    searched = find_searched(table, "t2i")
    assert searched.tolist() == list(range(1, 31))
    assert find_searched(table, "i2t").tolist() == [100, 111]
    assert labels.n_unproposed == 1
    assert labels.n_unanswered == sum(pair not in gains and pair[0] < 99 for pair in proposals)


def test_labels_that_nobody_proposed_are_no_annotators(world):
    _, table, verified, _, _ = world
    nobody = table.set_column(2, "proposals", pa.array([[]] * table.num_rows, table["proposals"].type))
    with pytest.raises(DataError, match="no model proposed"):
        join_proposals(verified, nobody, GALLERY, "t2i")
    nothing = Verified(*(getattr(verified, name)[:0] for name in Verified.__slots__))
    with pytest.raises(DataError, match="was verified"):
        join_proposals(nothing, table, GALLERY, "t2i")
    crowd = [[{"model": str(n), "direction": "t2i", "rank": 1} for n in range(9)]] * table.num_rows
    with pytest.raises(InvalidOption, match="511 sets"):
        join_proposals(verified, table.set_column(2, "proposals", pa.array(crowd)), GALLERY, "t2i")


def draw_tops(seed, depth=6, items=9, queries=40):
    random = np.random.default_rng(seed)
    return TopK(np.arange(queries), np.stack([random.permutation(items)[:depth] for _ in range(queries)]))


def test_correlations_are_those_of_scipy():
    """Over more queries than are in memory together, as tau-b of the ranks of the common items."""
    one, other = draw_tops(5, depth=25, items=60, queries=5_000), draw_tops(6, depth=25, items=60, queries=5_000)
    found = correlate_tops(one, other)
    for query in (0, 1, 4_095, 4_096, 4_999):
        common = sorted(set(one.ids[query].tolist()) & set(other.ids[query].tolist()))
        ranks = [[own.ids[query].tolist().index(item) for item in common] for own in (one, other)]
        assert found[query] == pytest.approx(kendalltau(*ranks).statistic)
    assert not np.isnan(found).any()
    assert correlate_tops(other, one).tolist() == found.tolist()
    one, other = (TopK(np.array([1]), np.array([ids])) for ids in ([1, 2], [2, 3]))
    assert np.isnan(correlate_tops(one, other)).all()  # one common item has no order


def test_where_another_places_the_first():
    one, other = draw_tops(3), draw_tops(4)
    expected = [
        right.index(left[0]) + 1 if left[0] in right else np.nan
        for left, right in zip(one.ids.tolist(), other.ids.tolist(), strict=True)
    ]
    assert np.array_equal(place_first(one, other), expected, equal_nan=True)
    assert np.isnan(expected).any()
