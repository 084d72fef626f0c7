"""A model among published ones: its place, rounding and refusals."""

import csv

import pytest

from cxc_eccv.comparison import join
from cxc_eccv.comparison.published import eccv_caption_table, printed_table
from cxc_eccv.errors import InvalidOption
from cxc_eccv.report import Report
from cxc_eccv.tables import RowOrder
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance

FACTS = {"split": "test", "data": {"edition": "official", "files": {}}}
MAIN = "eccv_caption/map_at_r"


def report(scores, facts=FACTS):
    rows = []
    for key, value in scores.items():
        task, *direction, metric = key.split("/")
        rows.append(Result(task, "".join(direction), metric, value, 5000))
    return Report(tuple(rows), {}, from_json(Provenance, facts))


def twin(model, plus=0.0):
    """A report with a published model's scores, a little better or worse."""
    table = eccv_caption_table()
    own_scores = [one for one in table.scores if one.model == model and one.key.count("/") == 2]
    scores = {one.key: min(one.value + plus, 1.0) for one in own_scores}
    pmrp = table.scores_of("plausible_match/pmrp_at_50")[model] + plus
    return report(scores | {f"plausible_match/{direction}/pmrp_at_50": pmrp for direction in ("i2t", "t2i")})


def own(joined):
    (row,) = (row for row in joined.rows if not row.published)
    return row


def names(joined):
    return [row.model for row in joined.rows]


def test_twin_stands_below_its_model_with_its_values():
    table = eccv_caption_table()
    joined = join(table, {"mine": twin("VinVL")})
    assert names(joined)[names(joined).index("VinVL") + 1] == "mine"
    assert set(own(joined).values) == set(table.keys)
    for key, value in own(joined).values.items():
        # Only a printed mean that ends in a half is rounded up.
        assert value == pytest.approx(table.scores_of(key)["VinVL"], abs=1.0001e-4 if key.count("/") == 1 else 1e-9)


def test_own_mean_is_rounded_once():
    recalls = {"coco_5k/i2t/recall_at_1": 0.50004, "coco_5k/t2i/recall_at_1": 0.50014}
    row = own(join(eccv_caption_table(), {"mine": report(recalls)}))
    assert row.values["coco_5k/recall_at_1"] == 0.5001


def test_own_rsum_is_that_of_its_report():
    recalls = [0.500049, 0.600049, 0.700049]
    scores = {
        f"coco_1k/{direction}/recall_at_{k}": value
        for k, value in zip((1, 5, 10), recalls, strict=True)
        for direction in ("i2t", "t2i")
    }
    row = own(join(eccv_caption_table(), {"mine": report(scores)}))
    assert row.values["coco_1k/rsum"] == pytest.approx(200 * sum(recalls), abs=1e-9)


@pytest.mark.parametrize(("plus", "above"), [(0.00004, "VinVL"), (0.0001, "VSRN + AOQ")])
def test_values_are_rounded_as_the_table_prints_them(plus, above):
    found = names(join(eccv_caption_table(), {"mine": twin("VinVL", plus)}))
    assert found[found.index("mine") - 1] == above


def test_lower_median_rank_stands_higher():
    joined = join(printed_table("cxc"), {"mine": report({"cxc/t2t/median_rank": 2.5})})
    assert (joined.by, names(joined).index("mine")) == ("cxc/t2t/median_rank", 3)
    assert min(row.values[joined.by] for row in joined.rows if row.values.get(joined.by)) == 2
    assert {str(row[2]) for row in joined.all_tables()[0].rows if row[2].strong} == {"2.0"}


def test_join_keeps_the_metrics_in_common():
    """Only the metrics that a report shares with the published table are joined."""
    joined = join(eccv_caption_table(), {"mine": report({"coco_5k/i2t/recall_at_1": 0.5, "cxc/t2t/recall_at_1": 0.4})})
    assert joined.keys == ("coco_5k/i2t/recall_at_1",)
    joined = join(eccv_caption_table(), {"a": twin("BLIP"), "b": twin("BLIP", 0.01)})
    found = names(joined)
    assert found.index("b") < found.index("BLIP") == found.index("a") - 1


def test_correlation_keeps_its_deviation():
    vse = printed_table("cxc").scores_of("cxc/sts/bootstrap_spearman")["VSE++"]
    mine = report({"cxc/sts/bootstrap_spearman": vse + 0.0004, "cxc/sts/bootstrap_spearman_std": 0.00412})
    joined = join(printed_table("cxc"), {"mine": mine})
    assert own(joined).values == {"cxc/sts/bootstrap_spearman": vse}
    assert own(joined).deviations == {"cxc/sts/bootstrap_spearman": 0.004}
    assert names(joined)[names(joined).index("mine") - 1] == "VSE++"
    row = next(row for row in joined.all_tables()[0].rows if str(row[0]) == "mine")
    assert str(row[2]) == "0.744 ± 0.004"


def test_joined_table_ranks_the_own_model_in_place():
    joined = join(eccv_caption_table(), {"mine": twin("SGR")})
    published = eccv_caption_table().scores_of(MAIN)
    assert joined.by == MAIN
    found = names(joined)
    assert found[found.index("SGR") + 1] == "mine"
    assert [name for name in found if name != "mine"] == sorted(published, key=lambda name: -published[name])
    (table,) = joined.all_tables()
    assert [column[-1] for column in table.header][2:6] == ["R@1", "R@5", "R@10", "RSUM"]
    mine = next(row for row in table.rows if str(row[0]) == "mine")
    assert (mine[0].strong, mine[1], str(mine[-2])) == (True, "15", "35.79")
    assert len(table.rows) == 26
    best = {str(row[0]) for row in table.rows for cell in row[2:] if cell.strong}
    assert best == {"BLIP", "VSRN", "VSE infinity (WSL grid)", "CLIP ViT-L/14"}


def test_text_model_stands_among_models_with_its_metrics():
    """Where no metric is in common, the table says so."""
    joined = join(printed_table("cxc"), {"mine": report({"cxc/t2t/recall_at_1": 0.41})})
    (table,) = joined.all_tables()
    assert joined.by == "cxc/t2t/recall_at_1"
    assert [str(row[0]) for row in table.rows][2:5] == ["VSRN (released)", "mine", "VSE++"]
    assert len(table.rows) == 11
    nothing = join(printed_table("cxc"), {"mine": report({"cxc/t2t/mrr": 0.41})})
    assert (nothing.by, nothing.all_tables()[0].notes) == ("", ["no metric in common"])


def test_name_of_a_published_model_is_another_model():
    joined = join(eccv_caption_table(), {"BLIP": twin("VSE0", 0.001)})
    assert [row.published for row in joined.rows if row.model == "BLIP"] == [True, False]
    rows = list(csv.DictReader(joined.to_csv().splitlines()))
    assert [row[MAIN] for row in rows if row["model"] == "BLIP"] == ["0.4052", "0.2276"]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            FACTS | {"data": {"edition": "sample"}},
            "on the test split of the edition 'sample'. They were scored on the whole",
        ),
        (FACTS | {"split": "validation"}, "the validation split of the edition 'official'"),
        (
            FACTS | {"data": {"edition": "official", "modified": {"sts_test": {"expected": "a", "found": "b"}}}},
            "modified raw files, sts_test. They",
        ),
        ({}, "the edition ''"),
    ],
)
def test_report_on_other_data_is_refused(facts, message):
    with pytest.raises(InvalidOption, match=message):
        join(printed_table("cxc"), {"mine": report({"cxc/t2t/recall_at_1": 0.4}, facts)})


def test_rank_stands_in_a_sentence_above_the_table():
    (table,) = join(eccv_caption_table(), {"mine": twin("SGR")}).all_tables()
    assert table.lead == ["mine: 15th of 26 by ECCV Caption mAP@R, between SGR and PVSE K=1, hardest negatives."]
    order = sorted(eccv_caption_table().scores_of(MAIN).items(), key=lambda item: -item[1])
    assert [model for model, _ in order][13:15] == ["SGR", "PVSE K=1, hardest negatives"]
    assert [str(table.rows[index][0]) for index in table.highlighted] == ["mine"]


@pytest.mark.parametrize(
    ("plus", "sentence"),
    [
        (0.5, "mine: 1st of 26 by ECCV Caption mAP@R, above VSE infinity (WSL grid)."),
        (-0.2, "mine: 26th of 26 by ECCV Caption mAP@R, below VinVL (zero-shot)."),
    ],
)
def test_rank_at_an_end_has_one_neighbour(plus, sentence):
    joined = join(eccv_caption_table(), {"mine": twin("SGR", plus)})
    assert joined.describe_ranks() == [sentence]
    assert sentence in joined.to_markdown()
    assert sentence in " ".join(str(joined).split())


def test_least_is_best_in_columns_of_ranks():
    (table,) = join(printed_table("cxc"), {"mine": report({"cxc/t2t/median_rank": 2.5})}).all_tables()
    assert table.order == RowOrder(2, frozenset({1, 2}))
