"""The chart of published models: which points it has, the user's intervals, and what it says of them."""

import pytest

from cxc_eccv.comparison import join, published_tables
from cxc_eccv.comparison.compared_models import ComparedModels
from cxc_eccv.comparison.published import eccv_caption_table, printed_table
from cxc_eccv.errors import InvalidOption
from cxc_eccv.report import Report
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance

FACTS = {"split": "test", "data": {"edition": "official", "files": {}}, "confidence": 0.9}
SCORES = {
    "coco_5k/i2t/recall_at_1": (0.6, 0.58, 0.63),
    "coco_5k/t2i/recall_at_1": (0.5, 0.49, 0.52),
    "eccv_caption/i2t/map_at_r": (0.3, 0.28, 0.31),
    "eccv_caption/t2i/map_at_r": (0.45, 0.44, 0.47),
}


def compare_with_published(scores=SCORES):
    rows = [
        Result(*key.split("/"), value=value, n_queries=5000, low=low, high=high)
        for key, (value, low, high) in scores.items()
    ]
    report = Report(tuple(rows), {}, from_json(Provenance, FACTS))
    return ComparedModels(published=tuple(join(table, {"mine": report}) for table in published_tables()))


def test_own_interval_is_the_mean_of_both_directions():
    (own,) = (point for point in compare_with_published().chart.points if point.series is None)
    assert (own.x, own.y) == pytest.approx((55, 37.5))
    assert own.x_interval == pytest.approx((53.5, 57.5))
    assert own.y_interval == pytest.approx((36, 39))


def test_chart_has_each_published_model_once():
    """All 25 of ECCV Caption, and of PCME++'s rows those that are not among these."""
    points = compare_with_published().chart.points
    assert sum(point.series == 0 for point in points) == len(eccv_caption_table().models) == 25
    second = {point.name for point in points if point.series == 1}
    assert set(printed_table("pcme_plus_plus").models) - second == {"CLIP ViT-B/32 (zero-shot)", "BLIP", "VinVL"}
    (blip,) = (point for point in points if point.name == "BLIP")
    assert (blip.x, blip.y) == pytest.approx((73.11, 40.52))


def test_page_opens_with_the_chart_and_both_ranks():
    page = compare_with_published().to_html()
    sections = [line for line in page.splitlines() if line.startswith("<section")]
    assert 'id="standing"' in sections[0]
    x = sum(value > 0.55 for value in eccv_caption_table().scores_of("coco_5k/recall_at_1").values())
    y = sum(value > 0.375 for value in eccv_caption_table().scores_of("eccv_caption/map_at_r").values())
    assert (x, y) == (3, 9)
    assert "mine is 4th of 26 by COCO 5K R@1 and 10th of 26 by ECCV Caption mAP@R." in page
    assert "Bars: 90% intervals." in page
    assert "tau-b 0.39" in page


def test_model_without_a_metric_is_named():
    compared = compare_with_published(dict(list(SCORES.items())[:3]))
    assert "mine is not in the chart: its report lacks ECCV Caption mAP@R of a direction." in compared.to_html()
    assert all(point.series is not None for point in compared.chart.points)


def test_no_chart_without_either_metric():
    compared = compare_with_published({"cxc/t2t/recall_at_1": (0.4, 0.39, 0.41)})
    assert compared.chart is None
    assert 'id="standing"' not in compared.to_html()
    with pytest.raises(InvalidOption, match="nothing to draw: no report has COCO 5K R@1 and ECCV Caption mAP@R"):
        _ = compared.drawing
