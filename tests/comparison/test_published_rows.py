"""Rows of papers: what one paper prints twice, or two papers print of one model, agrees."""

import pytest

from cxc_eccv.comparison.published import packaged_rows, printed_table

ABLATIONS = ("small batch size", "no pretraining", "ResNet-152")


def test_ablations_change_recalls_as_the_text_says():
    """Each lowers every recall but those of text to text, which two of the three raise."""
    rows = {row["model"]: row for row in packaged_rows("cxc_models.csv")}
    baseline = rows["DE_I2T"]
    for name in ABLATIONS:
        figures = {key: float(value) for key, value in rows[f"DE_I2T ({name})"].items() if key != "model" and value}
        assert len(figures) == 14
        changes = {key: value - float(baseline[key]) for key, value in figures.items()}
        assert all(change < 0 for key, change in changes.items() if "/t2t/" not in key)
        raised = [change > 0 for key, change in changes.items() if key.endswith("t2t/recall_at_1")]
        assert raised == [name != "small batch size"] * 2


def test_two_papers_print_the_same_of_vse():
    """The character GRU's Table 3 and CxC's Table 2, on COCO 5K."""
    gru = printed_table("char_gru")
    cxc = printed_table("cxc")
    shared = [key for key in gru.keys if key in cxc.keys]
    assert len(shared) == 8
    for key in shared:
        assert gru.scores_of(key)["VSE++"] == cxc.scores_of(key)["VSE++"]


@pytest.mark.parametrize("name", ["char_gru", "entailment"])
def test_deeper_recalls_are_higher(name):
    for row in packaged_rows(f"{name}_models.csv"):
        for part in {key.rpartition("/")[0] for key in row if key != "model"}:
            recalls = [row[f"{part}/recall_at_{k}"] for k in (1, 5, 10)]
            printed = [float(value) for value in recalls if value]
            assert printed == sorted(printed)


def test_entailment_strategy_changes_figures_by_what_is_printed():
    """TR@1 and IR@1 of both sets."""
    table = printed_table("entailment")
    changes = {"ALBEF": (0.1, 0.2, 0.2, -0.3), "CLIP": (1.6, 2.0, 3.1, 1.5), "UNITER": (-1.0, 0.4, 0.4, 1.3)}
    keys = [f"{task}/{direction}/recall_at_1" for direction in ("i2t", "t2i") for task in ("flickr30k", "coco_5k")]
    for model, printed in changes.items():
        for key, change in zip(keys, printed, strict=True):
            scores = table.scores_of(key)
            assert 100 * (scores[f"{model} (entailment-enhanced)"] - scores[model]) == pytest.approx(change)
