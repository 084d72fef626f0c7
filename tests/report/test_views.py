"""What the report draws, against plain loops over the per-query table and the report's own numbers."""

from dataclasses import replace

import numpy as np
import pytest
from report_samples import report_of_ranks

from cxc_eccv.evaluation.examples import ITEMS_SHOWN, QUERIES_SHOWN, choose_queries
from cxc_eccv.registry import tasks
from cxc_eccv.report.best_ranks import best_ranks, label_tasks
from cxc_eccv.report.charts import curve_panels, line_chart, rank_bins, segments, verdicts
from cxc_eccv.report.page_content import Page


@pytest.fixture(scope="module")
def report(sample_content):
    return sample_content[0]


def test_best_ranks_are_those_of_the_table(report):
    found = best_ranks(report)
    assert {key for key in found if key.startswith("cxc/")} == {"cxc/i2t", "cxc/t2i", "cxc/t2t", "cxc/i2i"}
    assert not any(key.startswith(("plausible_match", "cxc/s")) for key in found)
    rows = [row for row in report.per_query.to_pylist() if (row["task"], row["direction"]) == ("cxc", "t2i")]
    expected = {row["query_id"]: row["best_rank"] for row in rows}
    one = found["cxc/t2i"]
    assert dict(zip(one.query_ids.tolist(), one.ranks.tolist(), strict=True)) == expected


def test_curves_pass_through_the_recalls_of_the_report(report):
    panels = curve_panels(report, best_ranks(report))
    checked = 0
    for result in report.results:
        if result.metric.startswith("recall_at_"):
            curve = next(one for one in panels[result.task] if one.direction == result.direction)
            assert curve.at(result.parameters["k"]) == pytest.approx(result.value, abs=1e-12)
            assert (result.parameters["k"], result.value, result.low, result.high) in curve.marks
            checked += 1
    assert checked >= 24
    assert all(np.all(np.diff(curve.recalls) >= 0) for curves in panels.values() for curve in curves)


def test_bins_count_every_query_once(report):
    ranks = best_ranks(report)
    bounds = [(1, 1), (2, 5), (6, 10), (11, 50), (51, 100), (101, 500), (501, 1000), (1001, np.inf)]
    for task, direction, counts in rank_bins(ranks):
        own = ranks[f"{task}/{direction}"].ranks.tolist()
        assert list(counts) == [sum(low <= rank <= high for rank in own) for low, high in bounds] + [0]
        assert sum(counts) == len(own)


def test_short_rankings_have_queries_not_found():
    ranks = {"coco_5k/i2t": {1: 3, 2: None, 3: 7}}
    report = report_of_ranks(ranks, run={"directions": {"i2t": {"shallowest": 8}}})
    found = best_ranks(report)
    assert found["coco_5k/i2t"].ranks.tolist() == [3, np.inf, 7]
    (curve,) = curve_panels(report, found)["coco_5k"]
    assert curve.ks[-1] == 8
    assert curve.recalls[-1] == pytest.approx(2 / 3)
    assert rank_bins(found)[0][2] == (0, 1, 1, 0, 0, 0, 0, 0, 1)
    worst = next(one for one in choose_queries(found, "i2t") if one.group == "worst")
    assert (worst.query_id, worst.coco_rank, worst.best_rank) == (2, None, None)


def test_verdicts_equal_a_plain_count():
    random = np.random.default_rng(5)
    ranks = {
        f"{task}/t2i": {int(query): int(random.integers(1, 16)) for query in random.permutation(60)[:size]}
        for task, size in (("coco_5k", 60), ("cxc", 60), ("eccv_caption", 25))
    }
    for row in verdicts(best_ranks(report_of_ranks(ranks)))["t2i"]:
        counts = dict.fromkeys((*row.added, "wrong"), 0)
        for query in range(60):
            right = [task for task in row.added if ranks[f"{task}/t2i"].get(query, 99) <= row.k]
            counts[right[0] if right else "wrong"] += 1
        assert {**row.added, "wrong": row.wrong} == counts
        assert row.judged == {"coco_5k": 60, "cxc": 60, "eccv_caption": 25}
        assert row.errors == 60 - counts["coco_5k"]


def test_verdicts_need_coco_and_another_set_of_labels():
    assert verdicts(best_ranks(report_of_ranks({"coco_5k/i2t": {1: 1}}))) == {}
    assert verdicts(best_ranks(report_of_ranks({"cxc/t2t": {1: 1}, "cxc/i2i": {2: 4}}))) == {}


def test_labels_that_an_earlier_task_has_add_nothing():
    ranks = {f"{task}/i2t": {1: 1, 2: 9} for task in ("coco_5k", "cxc", "cxc_rated", "eccv_caption")}
    rows = verdicts(best_ranks(report_of_ranks(ranks)))["i2t"]
    assert all(list(row.added) == ["coco_5k", "cxc", "eccv_caption"] for row in rows)
    del ranks["cxc/i2t"]
    rows = verdicts(best_ranks(report_of_ranks(ranks)))["i2t"]
    assert all(list(row.added) == ["coco_5k", "cxc_rated", "eccv_caption"] for row in rows)


def test_label_tasks_follow_from_the_declared_sources(monkeypatch):
    """Another task whose labels are the links of COCO alone is not one of them."""
    mine = replace(tasks()["coco_5k"], name="mine", label_sources=("coco", "entailment"))
    smaller = replace(mine, name="smaller", label_sources=("coco",))
    monkeypatch.setattr("cxc_eccv.report.best_ranks.tasks", lambda: {**tasks(), "mine": mine, "smaller": smaller})
    ranking = label_tasks.__wrapped__()
    assert (ranking[0], ranking[-1]) == ("coco_5k", "mine")
    assert "smaller" not in ranking


def test_the_most_label_dependent_and_the_worst_queries():
    random = np.random.default_rng(2)
    coco = {query: int(random.integers(1, 500)) for query in range(80)}
    eccv = {query: int(random.integers(1, 40)) for query in range(0, 80, 2)}
    best = {query: min(coco[query], eccv.get(query, 10**6)) for query in coco}
    chosen = choose_queries(best_ranks(report_of_ranks({"coco_5k/i2t": coco, "eccv_caption/i2t": eccv})), "i2t")
    for one in chosen:
        assert (one.coco_rank, one.best_rank) == (coco[one.query_id], best[one.query_id])
    by_group = {group: [one.query_id for one in chosen if one.group == group] for group in QUERIES_SHOWN}
    assert {group: len(own) for group, own in by_group.items()} == QUERIES_SHOWN
    in_sight = [query for query in coco if best[query] <= ITEMS_SHOWN and best[query] < coco[query]]
    in_sight.sort(key=lambda query: best[query] - coco[query])
    assert by_group["label_dependent"] == in_sight[: QUERIES_SHOWN["label_dependent"]]
    rest = [query for query in coco if query not in by_group["label_dependent"]]
    assert by_group["worst"] == sorted(rest, key=lambda query: -best[query])[: QUERIES_SHOWN["worst"]]
    assert len({one.query_id for one in chosen}) == len(chosen)


def test_queries_found_under_other_labels_are_sorted():
    """Of queries that other labels alone find, those with the best ranks come first."""
    ranks = {"coco_5k/i2t": dict.fromkeys(range(9)) | {9: 1}, "cxc/i2t": {query: 9 - query for query in range(9)}}
    chosen = [one for one in choose_queries(best_ranks(report_of_ranks(ranks)), "i2t") if one.group != "plain"]
    assert [(one.query_id, one.coco_rank, one.best_rank) for one in chosen[:3]] == [
        (8, None, 1),
        (7, None, 2),
        (6, None, 3),
    ]
    ranks["eccv_caption/i2t"] = {20: 70}
    assert (20, None, 70) in [
        (one.query_id, one.coco_rank, one.best_rank)
        for one in choose_queries(best_ranks(report_of_ranks(ranks)), "i2t")
        if one.group == "worst"
    ]


def test_only_wrong_queries_are_worst():
    """Plain queries are spread evenly over the split."""
    chosen = choose_queries(best_ranks(report_of_ranks({"coco_5k/i2t": dict.fromkeys(range(30), 1)})), "i2t")
    assert [(one.group, one.query_id) for one in chosen] == [("plain", query) for query in (3, 10, 18, 25)]
    few = choose_queries(best_ranks(report_of_ranks({"coco_5k/i2t": {5: 1, 6: 1}})), "i2t")
    assert [one.query_id for one in few] == [5, 6]


def test_names_of_curves_do_not_overlap():
    report = report_of_ranks({f"cxc/{name}": {1: 1, 2: 2} for name in ("i2t", "t2i", "t2t", "i2i")})
    chart = line_chart("cxc", curve_panels(report, best_ranks(report)))
    heights = sorted(line.label_y for line in chart.lines)
    assert min(np.diff(heights)) >= 13
    assert chart.box[1] <= heights[0]
    assert heights[-1] <= chart.box[3]


def test_segments_cover_the_bar():
    parts = segments([3, 0, 4, 5], list("abcd"), list("wxyz"))
    assert [one.kind for one in parts] == ["a", "c", "d"]
    assert sum(one.width for one in parts) == pytest.approx(100, abs=0.01)
    assert [one.start for one in parts[1:]] == pytest.approx([one.start + one.width for one in parts[:-1]], abs=0.01)
    assert [one.text for one in segments([1, 1000, 100], "abc", "xyz")] == ["", "91%", "9%"]
    assert [one.text for one in segments([1, 1000], "ab", "xy")] == ["", ">99%"]
    assert segments([0, 0], ["a", "b"], ["x", "y"]) == []


def test_every_result_is_in_a_table(report):
    """A deviation over samples stands beside its mean."""
    shown = 0
    for card in Page(report).scores:
        for table in card.tables:
            shown += sum(1 if cell.deviation is None else 2 for row in table for cell in row)
            assert {tuple(cell.direction for cell in row) for row in table} == {tuple(c.direction for c in table[0])}
            assert all(len({cell.metric for cell in row}) == 1 for row in table)
        shown += len(card.whole)
    assert shown == len(report.results)
    assert sum(row.metric.endswith("_std") for row in report.results) == 3
