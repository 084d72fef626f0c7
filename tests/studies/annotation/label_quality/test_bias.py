"""Annotator bias: what follows from Table E.1 of the ECCV Caption paper, and loops by hand."""

from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.ranking import ranked
from cxc_eccv.ranking.readers import ReachedRows
from cxc_eccv.runs import RankingsRun, ScoresRun
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.studies.annotation.label_quality.bias import (
    bias_by_size,
    join_proposals,
    measure_bias,
    measure_gains,
    score_sets,
)
from cxc_eccv.studies.annotation.label_quality.sets import find_searched

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
    full = column(RECALL, 5)
    pvse = biases(RECALL)[0]
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


def test_gains_average_over_joinable_sets_of_models():
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
    # Of few levels, so that labelled items tie with each other and with items that nobody labelled.
    scores = {name: random.integers(4, size=(GALLERY.size, queries.size)) for name in (*ANNOTATORS, "late")}
    runs = {name: ScoresRun(GALLERY, queries, own.astype(np.float32)) for name, own in scores.items()}
    proposals = {}
    for name in ANNOTATORS:
        best = GALLERY[np.argsort(-scores[name], axis=0)[:3]].T
        for query, own in zip(queries.tolist(), best.tolist(), strict=True):
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
    verified = pd.DataFrame(found, columns=["query", "item"])
    verified = verified.assign(positive=values > 0, gain=values, asked=[pair not in known for pair in found])
    return runs, table, verified, proposals, gains


def test_every_set_of_labels_ranks_by_its_own(world):
    """Equations E.2 to E.4 pair by pair: a label is in a set's if one of the set proposed its pair."""
    runs, table, verified, proposals, gains = world
    labels = join_proposals(verified, table, GALLERY, "t2i")
    assert labels.annotators == ANNOTATORS

    def gain_of(query, item, own):
        proposers = {one["model"] for one in proposals.get((query, item), [])}
        return gains.get((query, item), 0.0) if proposers & own else 0.0

    everybody = frozenset(ANNOTATORS)
    queries = [q for q in range(1, 31) if any(gain_of(q, item, everybody) for item in GALLERY.tolist())]
    assert labels.judgments.query_ids.tolist() == queries
    for name, run in runs.items():
        found = score_sets(count_reached(run, labels), labels)
        for number in range(1, 8):
            own = labels.members(number)
            for place, query in enumerate(queries):
                scores = dict(zip(GALLERY.tolist(), run.scores[:, query - 1].tolist(), strict=True))
                gain = {item: gain_of(query, item, own) for item in GALLERY.tolist()}
                ranked_gains = [gain[item] for item in sorted(scores, key=lambda item: (-scores[item], gain[item]))]
                size = sum(value > 0 for value in ranked_gains)
                precision = sum(ranked_gains[:size]) / size if size else 0
                assert labels.sizes[number - 1, place] == size
                assert found["recall_at_1"][number - 1, place] == ranked_gains[0], (name, own, query)
                assert found["r_precision"][number - 1, place] == pytest.approx(precision)


def test_lists_rank_each_set_as_their_scores_do(world):
    runs, table, verified, _, _ = world
    labels = join_proposals(verified, table, GALLERY, "t2i")
    run = runs["late"]
    order = np.argsort(-run.scores.T, axis=1, kind="stable")
    ranked_scores = np.take_along_axis(run.scores.T, order, axis=1)
    starts = np.arange(0, order.size + 1, GALLERY.size)
    lists = RankedLists(np.arange(1, 31), starts, GALLERY[order].ravel(), ranked_scores.ravel())
    assert count_reached(RankingsRun({"t2i": lists}), labels).tolist() == count_reached(run, labels).tolist()


def count_reached(run, labels):
    reader = ReachedRows(labels.judgments, int(labels.judgments.n_positives.max()))
    ranked(run).rank_all({}, {labels.direction: [reader]})
    return reader.result


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
    nothing = verified.head(0)
    with pytest.raises(DataError, match="was verified"):
        join_proposals(nothing, table, GALLERY, "t2i")
    crowd = [[{"model": str(n), "direction": "t2i", "rank": 1} for n in range(9)]] * table.num_rows
    with pytest.raises(InvalidOption, match="511 sets"):
        join_proposals(verified, table.set_column(2, "proposals", pa.array(crowd)), GALLERY, "t2i")
