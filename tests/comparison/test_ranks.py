"""Ranks of a comparison: those of the differences between all its models, under every set of labels, on its page."""

import json

import numpy as np
import pytest
from scipy.stats import norm
from scored_reports import scored

from cxc_eccv.comparison import compare, compare_reports
from cxc_eccv.comparison.model_ranks import ranks_under_any_labels
from cxc_eccv.statistics import Draws, rank_intervals

KEYS = ("coco_5k/i2t/recall_at_1", "cxc/i2t/recall_at_1", "eccv_caption/i2t/map_at_r", "cxc/t2t/recall_at_1")
SHIFTS = {"<b>": (0, 0, 0.4, 0), "new": (0.3, 0.3, 0.4, 0), "third": (0.31, 0.3, 0, 0), "fourth": (0.7, 0.7, 0.4, 0)}
IDS = np.arange(300)


def models():
    """Four models; the orders under COCO and CxC differ from that under ECCV Caption."""
    easy = np.random.default_rng(0).random(IDS.size)
    reports = []
    for place, (name, shifts) in enumerate(SHIFTS.items()):
        random = np.random.default_rng(place + 1)
        per_key = {
            key: (IDS, np.round(np.clip(0.6 * easy + 0.3 * random.random(IDS.size) + shift, 0, 1)), IDS % 150)
            for key, shift in zip(KEYS, shifts, strict=True)
        }
        reports.append(scored(name, per_key))
    return reports


def draw(values):
    """Means on the 1,500 samples of seed 0, each image with its two queries."""
    seeds = np.random.SeedSequence(0).generate_state(2).tolist()
    times = np.concatenate([Draws(seed, size).times(150) for seed, size in zip(seeds, (1000, 500), strict=True)])
    return times @ values.reshape(2, 150).sum(axis=0) / 300


@pytest.fixture(scope="module")
def comparison():
    return compare(*models(), samples=1500)


def test_ranks_equal_those_of_slow_draws(comparison):
    """Each metric's level is 0.05 divided by the number of metrics."""
    reports = models()
    for key in KEYS:
        values = [one.per_query[key].values for one in reports]
        expected = rank_intervals(np.mean(values, axis=1), list(map(draw, values)), 150, 1 - 0.05 / len(KEYS))
        rows = {row.model: row for row in comparison.ranks if row.key == key}
        assert [(rows[name].low, rows[name].high) for name in SHIFTS] == list(
            zip(expected.low.tolist(), expected.high.tolist(), strict=True)
        )
        assert [row.value for row in rows.values()] == sorted(map(np.mean, values), reverse=True)
        for place, name in enumerate(SHIFTS):
            assert {*rows[name].tied_with, name} == {
                other for other, tied in zip(SHIFTS, expected.tied[place], strict=True) if tied
            }


def test_ranks_ignore_how_many_metrics_are_drawn_together(comparison, monkeypatch):
    monkeypatch.setattr(compare_reports, "MOST_DRAWN", 1)
    again = compare(*models(), samples=1500)
    assert again.ranks == comparison.ranks
    assert again.differences == comparison.differences


def test_rank_under_any_labels_joins_all_intervals(comparison):
    """The interval reaches from the lowest to the highest rank under any labels of the same gallery."""
    found = ranks_under_any_labels(comparison.ranks)
    assert found.keys() == {"i2t"}
    for name, (low, high) in found["i2t"].items():
        rows = [row for row in comparison.ranks if row.model == name and row.direction == "i2t"]
        assert len(rows) == 3
        assert (low, high) == (min(row.low for row in rows), max(row.high for row in rows))
    assert found["i2t"]["third"][1] == 4  # the last under ECCV Caption alone


def test_insignificant_difference_shows_the_detectable_one(comparison):
    """The table shows the least difference that would be significant and the number of queries needed for it."""
    level = 0.05 / len(comparison.differences)
    values = [one.per_query["cxc/t2t/recall_at_1"].values for one in models()[:2]]
    drawn = draw(values[1]) - draw(values[0])
    row = next(one for one in comparison.differences if (one.model, one.direction) == ("new", "t2t"))
    assert row.detectable == pytest.approx((norm.isf(level / 2) + norm.ppf(0.8)) * drawn.std())
    assert row.queries_needed == np.ceil(300 * (row.detectable / row.difference) ** 2)
    cells = {
        str(cells[0]).strip(): cells for table in comparison.all_tables()[2:3] for cells in table.rows if len(cells) > 1
    }
    assert cells["t2t R@1"][-2] == f"{100 * row.detectable:.1f}"
    assert cells["t2t R@1"][-1].replace(",", "").isdigit()
    assert [cells["i2t R@1"][-2], cells["i2t R@1"][-1]] == ["", ""]


def test_several_models_get_score_tables_with_groups(comparison):
    scores, outcomes = comparison.tables()
    assert scores.headings == ["", "COCO 5K i2t R@1", "CxC i2t R@1", "ECCV Caption i2t mAP@R", "CxC t2t R@1"]
    assert [row[0] for row in scores.rows] == [row[0] for row in outcomes.rows] == ["new", "fourth", "<b>", "third"]
    groups = {row.model: row.groups for row in comparison.ranks if row.key == KEYS[0]}
    assert {row[0]: row[1].split()[1] for row in scores.rows} == groups
    assert [row[1:4] for row in outcomes.rows] == [["2", "0", "2"], ["2", "0", "2"], ["—"] * 3, ["2", "1", "1"]]
    assert outcomes.rows[0][4] == "1-3"
    assert outcomes.headings[4] == "rank i2t under any labels"


def test_title_and_not_rows_name_shared_labels():
    labels = {"sources": ["coco", "new"], "files": {}}
    per_key = [(one.name, {KEYS[0]: (IDS, one.per_query[KEYS[0]].values, IDS % 150)}) for one in models()]
    reports = [scored(f"{name}, labels coco + new", values, labels=labels) for name, values in per_key]
    scores, outcomes = compare(*reports, samples=200).tables()
    assert scores.title == "Scores of 4 models, labels coco + new"
    assert {row[0] for row in scores.rows} == {row[0] for row in outcomes.rows} == set(SHIFTS)
    assert not any("labels" in note for note in scores.notes)


def test_tables_file_and_page_show_the_ranks(comparison):
    *_, i2t, t2t = comparison.all_tables()
    assert i2t.headings == ["", "COCO 5K", "CxC", "ECCV Caption", "any labels"]
    assert i2t.rows[0] == ["fourth", "1 a", "1 a", "1-3 a", "1-3"]
    assert t2t.headings == ["", "CxC"]
    written = json.loads(comparison.to_json())
    assert written["ranks_under_any_labels"]["i2t"]["fourth"] == [1, 3]
    assert next(row["model"] for row in written["ranks"] if row["key"] == KEYS[0]) == "fourth"
    page = comparison.to_html()
    assert "<b><b>" not in page
    assert page.count('class="forest"') == len(KEYS)
    assert len(comparison.all_tables()) == 2 + 3 + 2


def test_notes_are_shown_once_for_all_models():
    similarities = ("cosine", "dot", "dot")
    reports = [
        scored(one.name, {KEYS[0]: (IDS, one.per_query[KEYS[0]].values, IDS % 150)}, similarity=similarity)
        for one, similarity in zip(models(), similarities, strict=False)
    ]
    found = compare(*reports, samples=200)
    assert found.notes == ("similarity: cosine for <b>, dot for new", "similarity: cosine for <b>, dot for third")
    assert found.tables()[-1].cautions == ["note: similarity: cosine for <b>, dot for new and third"]


def test_model_without_a_metric_is_ranked_under_others():
    """It has no rank under any labels."""
    first, second, third, fourth = models()
    lacking = scored("lacking", {key: (IDS, third.per_query[key].values, IDS % 150) for key in KEYS[:1]})
    found = compare(first, second, lacking, fourth, samples=200)
    assert {row.model for row in found.ranks if row.key == KEYS[1]} == {"<b>", "new", "fourth"}
    assert {row.model for row in found.ranks if row.key == KEYS[0]} == {"<b>", "new", "fourth", "lacking"}
    assert "lacking" not in ranks_under_any_labels(found.ranks)["i2t"]
