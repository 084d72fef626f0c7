"""A model among published ones: rank, neighbours, rounding, refusals, and the chart of ranks."""

import csv

import pytest

from cxc_eccv.comparison import place
from cxc_eccv.comparison.published import HEADLINES, cxc_table, eccv_caption_table, order_models, standings
from cxc_eccv.comparison.published.rank_chart import charted_metrics, draw_rank_chart
from cxc_eccv.comparison.views import order_tables, order_to_csv, placement_table
from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.types import Report, Result

FACTS = {"split": "test", "data": {"edition": "official", "files": {}}}


def report(scores, facts=FACTS):
    rows = []
    for key, value in scores.items():
        task, *direction, metric = key.split("/")
        rows.append(Result(task, "".join(direction), metric, value, 5000))
    return Report(tuple(rows), {}, facts)


def twin(model, plus=0.0):
    """A report with a published model's scores, a little better or worse."""
    table = eccv_caption_table()
    scores = {one.key: one.value + plus for one in table.scores if one.model == model and one.key.count("/") == 2}
    pmrp = table.scores_of("plausible_match/pmrp_at_50")[model] + plus
    return report(scores | {f"plausible_match/{direction}/pmrp_at_50": pmrp for direction in ("i2t", "t2i")})


def test_a_twin_stands_right_below_its_model_under_every_metric():
    table = eccv_caption_table()
    found = place(table, {"mine": twin("VinVL")})
    assert {one.key for one in found} == set(table.keys)
    assert len(found) == 32
    for one in found:
        published = table.scores_of(one.key)
        better_or_equal = sum(value >= published["VinVL"] for value in published.values())
        assert (one.rank, one.n_models) == (better_or_equal + 1, 26)
        assert one.value == pytest.approx(published["VinVL"], abs=1e-9)
        assert one.above == "VinVL"


def test_values_are_rounded_as_the_table_prints_them():
    table = eccv_caption_table()
    for plus, above in ((0.00004, "VinVL"), (0.0001, "VSRN + AOQ")):
        found = {one.key: one for one in place(table, {"mine": twin("VinVL", plus)})}
        assert found["eccv_caption/map_at_r"].above == above


def test_less_is_more_for_the_median_rank_alone():
    """Models are ranked together, under the metrics that they and the paper have."""
    placed = place(cxc_table(), {"mine": report({"cxc/t2t/median_rank": 2.5, "cxc/t2t/recall_at_1": 0.425})})
    assert {one.key: one.rank for one in placed} == {"cxc/t2t/median_rank": 4, "cxc/t2t/recall_at_1": 1}
    assert standings(cxc_table(), "cxc/t2t/recall_at_1", {})[0].model == "DE_T2T+I2T"
    placed = place(eccv_caption_table(), {"a": twin("BLIP"), "b": twin("BLIP", 0.01)})
    assert {one.model: one.rank for one in placed if one.key == "coco_5k/recall_at_1"} == {"b": 1, "a": 3}
    placed = place(eccv_caption_table(), {"mine": report({"coco_5k/i2t/recall_at_1": 0.5, "cxc/t2t/recall_at_1": 0.4})})
    assert [one.key for one in placed] == ["coco_5k/i2t/recall_at_1"]


def test_a_correlation_is_rounded_as_its_paper_prints_it_and_keeps_its_deviation():
    """Equal after rounding, the published model stands above."""
    vse = cxc_table().scores_of("cxc/sts/bootstrap_spearman")["VSE++"]
    mine = report({"cxc/sts/bootstrap_spearman": vse + 0.0004, "cxc/sts/bootstrap_spearman_std": 0.00412})
    (found,) = place(cxc_table(), {"mine": mine})
    assert (found.value, found.deviation, found.above) == (vse, 0.004, "VSE++")
    table = placement_table(cxc_table(), [found], ["mine"])
    assert [str(cell) for cell in table.rows[1]][:2] == ["  sts Spearman", "0.744 ± 0.004"]


def test_all_published_models_stand_in_order_with_the_own_one_in_its_place():
    order = order_models(eccv_caption_table(), {"mine": twin("SGR")})
    published = eccv_caption_table().scores_of("eccv_caption/map_at_r")
    assert order.by == "eccv_caption/map_at_r"
    names = [model.name for model in order.models]
    assert names[names.index("SGR") + 1] == "mine"
    names.remove("mine")
    assert names == sorted(published, key=lambda name: -published[name])
    (table,) = order_tables(order)
    assert [column[-1] for column in table.header][2:6] == ["R@1", "R@5", "R@10", "RSUM"]
    own = next(row for row in table.rows if str(row[0]) == "mine")
    assert (own[0].strong, own[1], str(own[-2])) == (True, "15", "35.80")
    assert len(table.rows) == 26
    best = {str(row[0]) for row in table.rows for cell in row[2:] if cell.strong}
    assert best == {"BLIP", "VSRN", "VSE infinity (WSL grid)", "CLIP ViT-L/14"}


def test_models_of_one_modality_stand_among_those_that_have_their_metrics():
    order = order_models(cxc_table(), {"mine": report({"cxc/t2t/recall_at_1": 0.41})})
    (table,) = order_tables(order)
    assert order.by == "cxc/t2t/recall_at_1"
    assert [str(row[0]) for row in table.rows][2:5] == ["VSRN (released)", "mine", "VSE++"]
    assert len(table.rows) == 8
    nothing = order_models(cxc_table(), {"mine": report({"cxc/t2t/mrr": 0.41})})
    assert (nothing.by, order_tables(nothing)[0].notes) == ("", ["no metric in common"])


def test_a_name_that_a_published_model_has_is_another_model():
    order = order_models(eccv_caption_table(), {"BLIP": twin("VSE0", 0.001)})
    assert [(model.name, model.published) for model in order.models if model.name == "BLIP"] == [
        ("BLIP", True),
        ("BLIP", False),
    ]
    rows = list(csv.DictReader(order_to_csv(order).splitlines()))
    assert [row["eccv_caption/map_at_r"] for row in rows if row["model"] == "BLIP"] == ["0.40515", "0.22765"]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"split": "test", "data": {"edition": "sample"}}, "edition is 'sample', and theirs is 'official'"),
        ({"split": "validation", "data": {"edition": "official"}}, "split is 'validation'"),
        ({"split": "test", "data": {"edition": "official", "files": {"sts_test": "0"}}}, "its sts_test was modified"),
        ({}, "edition is None"),
    ],
)
def test_reports_that_published_figures_say_nothing_about_are_refused(facts, message):
    with pytest.raises(InvalidOption, match=message):
        place(cxc_table(), {"mine": report({"cxc/t2t/recall_at_1": 0.4}, facts)})
    files = {entry.name: entry.sha256 for entry in load_catalog() if entry.sha256}
    official = {"split": "test", "data": {"edition": "official", "files": files}}
    assert place(cxc_table(), {"mine": report({"cxc/t2t/recall_at_1": 0.4}, official)})


def test_the_table_shows_rank_and_neighbours():
    shown = placement_table(eccv_caption_table(), place(eccv_caption_table(), {"mine": twin("SGR")}), ["mine"])
    row = next(row for row in shown.rows if str(row[0]).strip() == "both mAP@R")
    assert [*map(str, row[1:])] == ["35.80", "15 of 26", "SGR", "PVSE K=1, hardest negatives"]


@pytest.mark.thorough
def test_the_chart_is_drawn_alike_every_time(tmp_path):
    pytest.importorskip("matplotlib", reason="the report extra is not installed")
    models = {"<b>mine & $yours$": twin("VSRN", 0.01), "other": twin("BLIP", -0.02)}
    paths = [tmp_path / name for name in ("a.svg", "b.svg", "c.png")]
    draw_rank_chart(eccv_caption_table(), models, paths)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert b"&lt;b&gt;mine &amp; $yours$" in paths[0].read_bytes()
    assert paths[2].read_bytes().startswith(b"\x89PNG")


def test_the_chart_has_the_metrics_that_all_models_have():
    half = report({f"coco_5k/{direction}/recall_at_1": 0.5 for direction in ("i2t", "t2i")})
    assert charted_metrics(eccv_caption_table(), {"a": twin("BLIP")}) == list(HEADLINES)
    assert charted_metrics(eccv_caption_table(), {"a": twin("BLIP"), "b": half}) == ["coco_5k/recall_at_1"]
    with pytest.raises(InvalidOption, match=r"at least 2 metrics .* share coco_5k/recall_at_1"):
        draw_rank_chart(eccv_caption_table(), {"b": half}, [])
    with pytest.raises(InvalidOption, match="1 to 6 models"):
        draw_rank_chart(eccv_caption_table(), {str(number): twin("BLIP") for number in range(7)}, [])
