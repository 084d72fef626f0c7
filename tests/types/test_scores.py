"""Scores: a dict whose error for a wrong key names the right ones."""

import copy
import json
import pickle

import pytest

from cxc_eccv.errors import CxcEccvError, UnknownScore
from cxc_eccv.report import Report
from cxc_eccv.types.result import Result
from cxc_eccv.types.scores import Scores

PARTS = ("cxc/i2t", "cxc/t2i", "coco_5k/i2t", "coco_5k/t2i")
KEYS = [f"{part}/recall_at_{k}" for part in PARTS for k in (1, 5)]
VALUES = dict.fromkeys([*KEYS, "eccv_caption/i2t/map_at_r", "eccv_caption/t2i/map_at_r"], 0.5)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("eccv_caption/t2i/mAP@R", "eccv_caption/t2i/map_at_r, eccv_caption/i2t/map_at_r"),
        ("eccv/t2i/map_at_r", "eccv_caption/t2i/map_at_r"),
        ("COCO 5K/i2t/R@5", "coco_5k/i2t/recall_at_5"),
        ("coco_5k/i2t/recall@1", "coco_5k/i2t/recall_at_1"),
        ("map_at_r", "eccv_caption/"),
    ],
)
def test_wrong_key_names_nearest_first(key, nearest):
    with pytest.raises(UnknownScore) as caught:
        Scores(VALUES)[key]
    assert str(caught.value).startswith(f"no score {key!r}; the report has {nearest}")
    assert str(caught.value).endswith(", and 2 more: list(report.scores)")


def test_skipped_metric_gives_its_reason():
    report = Report((Result("coco_5k", "t2i", "mrr", 0.5, 10),), skipped={"coco_5k/i2t": "the run has no i2t rankings"})
    with pytest.raises(KeyError, match="coco_5k/i2t was skipped, as the run has no i2t rankings"):
        report.scores["coco_5k/i2t/mrr"]
    with pytest.raises(CxcEccvError, match=r"the report has coco_5k/t2i/mrr$"):
        report.scores["coco_5k/t2i/mr"]


@pytest.mark.parametrize("key", ["", 3, None])
def test_key_that_is_no_text_is_unknown(key):
    with pytest.raises(UnknownScore, match="no score"):
        Scores(VALUES)[key]


def test_report_without_scores_says_so():
    with pytest.raises(UnknownScore, match="the report has no scores"):
        Report(()).scores["cxc"]


def test_scores_are_a_dict_otherwise():
    scores = Scores(VALUES, {"cxc/sts": "no vectors"})
    assert scores == VALUES
    assert scores.get("cxc") is None
    assert "cxc" not in scores
    assert json.loads(json.dumps(scores)) == VALUES
    for copied in (pickle.loads(pickle.dumps(scores)), copy.deepcopy(scores)):
        assert copied == VALUES
        with pytest.raises(UnknownScore, match="as no vectors"):
            copied["cxc/sts/spearman"]


def test_error_survives_a_process():
    with pytest.raises(UnknownScore) as caught:
        Scores(VALUES)["cxc"]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
