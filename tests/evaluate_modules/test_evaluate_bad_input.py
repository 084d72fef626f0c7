"""What the ``evaluate`` modules refuse: an error of the package, never a number, and nothing left behind."""

from pathlib import Path

import numpy as np
import pytest

from cxc_eccv import registry
from cxc_eccv.errors import (
    CxcEccvError,
    DataError,
    InvalidOption,
    MalformedRun,
    RunTooShallow,
    UnknownIds,
    UnknownName,
)
from cxc_eccv.metrics.kinds import RankMetric

SPECS = registry.metric_functions()
RANKED = [name for name, spec in SPECS.items() if isinstance(spec, RankMetric)]
GOOD = {"predictions": [[3, 1, 2], [2, 3, 1]], "references": [[1], [3]]}
BAD_RANKINGS = {
    "empty": ({"predictions": [], "references": []}, MalformedRun, "nothing to score"),
    "unequal lengths": ({"references": [[1]]}, MalformedRun, "unequal lengths: 2 predictions, 1 references"),
    "missing": ({"references": None}, MalformedRun, "references missing"),
    "strings": ({"predictions": [["3"], ["2"]]}, MalformedRun, r"predictions, row 0 is \['3'\]"),
    "floats": ({"predictions": [[3, 1, 2], [2.0, 3, 1]]}, MalformedRun, "predictions, row 1"),
    "not a number": ({"predictions": [[3, 1, 2], [float("nan")]]}, MalformedRun, "predictions, row 1"),
    "one boolean": ({"predictions": [[3, 1, 2], [2, 3, True]]}, MalformedRun, "predictions, row 1"),
    "an empty ranking": ({"predictions": [[3, 1, 2], []]}, MalformedRun, "ranking of query 1 is empty"),
    "booleans": ({"predictions": [[True], [False]]}, MalformedRun, "predictions, row 0"),
    "none": ({"references": [[1], [None]]}, MalformedRun, "references, row 1"),
    "a number": ({"predictions": 5}, MalformedRun, "predictions is 5; need a list with one entry per row"),
    "flat": ({"predictions": [3, 1]}, MalformedRun, "predictions, row 0 is 3; need a list"),
    "a mapping": ({"predictions": {5: [3, 1], 6: [2]}}, MalformedRun, "predictions, row 0 is 5"),
    "repeated": ({"predictions": [[3, 1, 3], [2, 3, 1]]}, MalformedRun, "lists item 3 twice, at ranks 1 and 3"),
    "repeated positives": ({"references": [[1, 1], [3]]}, DataError, "query 0 and item 1 occurs twice"),
    "no positive": ({"references": [[1], []]}, DataError, "query 1 has no positive"),
    "gallery": ({"gallery_size": 2}, MalformedRun, "more than gallery_size 2"),
    "option": ({"galery_size": 3}, UnknownName, "unknown option 'galery_size'; did you mean 'gallery_size'"),
}


REFUSED = [*(("map_at_r", case) for case in BAD_RANKINGS), ("mrr", "strings"), ("rsum", "strings"), ("rsum", "empty")]


@pytest.mark.parametrize(("name", "case"), REFUSED)
def test_bad_rankings_are_refused_and_leave_nothing(load_metric, name, case):
    changed, error, message = BAD_RANKINGS[case]
    metric = load_metric(name)
    good = {**GOOD, "gallery_size": 3} | ({"directions": ["i2t", "t2i"]} if name == "rsum" else {})
    bad = {**good, **changed}
    if "directions" in bad:
        bad["directions"] = [] if bad["predictions"] == [] else bad["directions"]
    with pytest.raises(error, match=message):
        metric.compute(**bad)
    assert metric.compute(**good) == load_metric(name).compute(**good)


@pytest.mark.parametrize("name", RANKED)
def test_a_ranking_cut_short_is_refused(load_metric, name):
    options = dict.fromkeys(SPECS[name].parameters, 5)
    with pytest.raises(RunTooShallow, match=r"query 1 \(R = 3\)"):
        load_metric(name).compute(predictions=[[1, 2, 3, 4, 5], [2, 9]], references=[[1], [1, 5, 6]], **options)


def test_a_refusal_leaves_no_file_and_no_lock(load_metric):
    metric = load_metric("map_at_r")
    with pytest.raises(RunTooShallow):
        metric.compute(predictions=[[2]], references=[[1, 5, 6]])
    assert list(Path(metric.data_dir).glob("*.arrow")) == []
    assert not metric.filelocks[0].is_locked


def test_refused_batch_keeps_the_rows_added_before(load_metric):
    metric = load_metric("map_at_r")
    metric.add_batch(predictions=[[1, 2]], references=[[1]])
    with pytest.raises(MalformedRun, match="row 0"):
        metric.add_batch(predictions=[["1", "2"]], references=[[2]])
    with pytest.raises(UnknownName, match="unknown option 'k'"):
        metric.compute(k=1)
    metric.add_batch(predictions=[[1, 2]], references=[[2]])
    assert metric.compute() == {"map_at_r": 0.5}


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"predictions": [0.1, float("nan"), 0.3]}, MalformedRun, "predictions, row 1 is nan"),
        ({"predictions": [0.1, float("inf"), 0.3]}, MalformedRun, "predictions, row 1 is inf"),
        ({"predictions": ["0.1", "0.2", "0.3"]}, MalformedRun, "not a flat list of numbers"),
        ({"predictions": [0.1, 0.1, 0.1]}, MalformedRun, "similarities are all 0.1"),
        ({"references": [1.0, 1.0, 1.0]}, DataError, "ratings are all 1.0"),
        ({"item_ids": ["a", "b", "c"]}, MalformedRun, "item_ids"),
    ],
)
def test_bad_pairs_are_refused(load_metric, changed, error, message):
    good = {
        "predictions": [0.1, 0.2, 0.3],
        "references": [1.0, 2.0, 3.0],
        "query_ids": [1, 2, 3],
        "item_ids": [4, 5, 6],
    }
    metric = load_metric("spearman_all_pairs")
    with pytest.raises(error, match=message):
        metric.compute(**{**good, **changed})
    assert metric.compute(**good) == {"spearman_all_pairs": 1.0}


def test_other_refusals(load_metric):
    with pytest.raises(MalformedRun, match="nothing to score: give predictions and references"):
        load_metric("mrr").compute()
    with pytest.raises(MalformedRun, match="directions are i2t; rsum needs rows of i2t and of t2i"):
        load_metric("rsum").compute(**GOOD, directions=["i2t", "i2t"])
    for name in ("recall_at_k", "mrr_at_k"):
        for k in (0, 1.5, True):
            with pytest.raises(InvalidOption, match="k is "):
                load_metric(name).compute(**GOOD, k=k)
    with pytest.raises(InvalidOption, match="k is an empty list"):
        load_metric("recall_at_k").compute(**GOOD, k=[])
    with pytest.raises(CxcEccvError, match="unknown input 'ratings'"):
        load_metric("mrr").add_batch(**GOOD, ratings=[1, 2])


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"gains": [[1], [1, 0]]}, DataError, "row 1 has 2 gains for 1 references"),
        ({"gains": [[1], [float("nan")]]}, MalformedRun, "gains, row 1, row 0 is nan"),
        ({"gains": [["1"], [1]]}, MalformedRun, "gains, row 0 are not a flat list of numbers"),
        ({"gains": None}, MalformedRun, "gains missing; this metric needs predictions, references, gains"),
        ({"k": 0}, InvalidOption, "k is 0"),
        ({"k": "3"}, InvalidOption, "k is '3'"),
        ({"k": 3}, RunTooShallow, r"ndcg_at_k\(k=3\) of query 0 looks at the top 3, but its ranking ends at rank 2"),
        ({"predictions": [[1, 1], [2, 3]]}, MalformedRun, "lists item 1 twice"),
        ({"gains": [[0], [1]]}, DataError, "query 0 has no item of positive gain"),
        ({"references": [[1], [9]], "k": 3, "gallery_size": 2}, DataError, "query 1: .* lacks the judged item 9"),
    ],
)
def test_bad_gains_are_refused(load_metric, changed, error, message):
    good = {"predictions": [[1, 2], [2, 3]], "references": [[1], [3]], "gains": [[1], [2]], "k": 2}
    metric = load_metric("ndcg_at_k")
    with pytest.raises(error, match=message):
        metric.compute(**{**good, **changed})
    assert metric.compute(**good)["ndcg_at_2"] == pytest.approx((1 + 1 / np.log2(3)) / 2)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"verdicts": [[1], [1]]}, DataError, "row 1 has 1 verdicts for 2 references"),
        ({"verdicts": [[1], [1, 3]]}, DataError, "query 1 has the verdict 3; a verdict is 0, 1 or 2"),
        ({"predictions": [[1, 2], [3, 2]]}, RunTooShallow, "query 1: its ranking lacks the judged item 1"),
    ],
)
def test_bad_verdicts_are_refused(load_metric, changed, error, message):
    good = {"predictions": [[1, 2], [3, 2, 1]], "references": [[1], [3, 1]], "verdicts": [[1], [1, 0]]}
    metric = load_metric("bpref")
    with pytest.raises(error, match=message):
        metric.compute(**{**good, **changed})
    assert metric.compute(**good) == {"bpref": 1.0}


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"categories": None}, InvalidOption, "categories is None; give a dict of every gallery id"),
        ({"categories": {"a": [1]}}, InvalidOption, "categories has the key 'a'"),
        ({"categories": {1: [5], 2: [5]}}, UnknownIds, "ranking of query 0 holds item 3, which is not in categories"),
        ({"references": [[9]]}, UnknownIds, "references of query 0: item 9 is not in categories"),
        ({"references": [[1, 3]]}, DataError, "references of query 0 show different categories"),
        ({"references": [[4]]}, DataError, "references of query 0 show no category"),
        ({"predictions": [[3, 4]]}, RunTooShallow, "query 0 needs 2 ranked items .* matches, but its ranking holds 1"),
        ({"predictions": [[4]]}, RunTooShallow, "query 0 needs 2 ranked items .* matches, but its ranking holds 0"),
        ({"predictions": [[3, 3, 1]]}, MalformedRun, "lists item 3 twice"),
    ],
)
def test_bad_categories_are_refused(load_metric, changed, error, message):
    categories = {1: [5], 2: [5], 3: [5, 6, 7, 8], 4: []}
    good = {"predictions": [[3, 1, 2]], "references": [[1, 2]], "categories": categories}
    metric = load_metric("pmrp")
    with pytest.raises(error, match=message):
        metric.compute(**{**good, **changed})
    assert metric.compute(**good) == {"pmrp": 0.5}
