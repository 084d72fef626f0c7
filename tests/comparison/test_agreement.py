"""The agreement of metrics and labels on the order of models: equal to SciPy's tau-b on slow samples, and refused."""

import json

import numpy as np
import pytest
from scipy.stats import kendalltau
from scored_reports import scored

from cxc_eccv.comparison import measure_agreement
from cxc_eccv.errors import InvalidOption
from cxc_eccv.statistics import Draws

IMAGES = np.arange(40)
I2T = "coco_5k/i2t/recall_at_1"
T2I = "coco_5k/t2i/recall_at_1"
ECCV = "eccv_caption/i2t/map_at_r"
FIELDS = {I2T: (IMAGES, IMAGES), T2I: (np.arange(120), np.repeat(IMAGES, 3)), ECCV: (IMAGES[::2], IMAGES[::2])}
"""Key to its queries and the image behind each; ECCV Caption judges every second image."""
NAMES = ["a", "b", "c", "d", "e"]
NEW = {"labels": {"sources": ["coco", "new"], "files": {}}}


def model(name, seed, keys=FIELDS, **facts):
    random = np.random.default_rng([seed, NAMES.index(name)])
    share = 0.3 + 0.08 * NAMES.index(name)
    values = {key: (random.random(FIELDS[key][0].size) < share).astype(float) for key in keys}
    return scored(name, {key: (FIELDS[key][0], values[key], FIELDS[key][1]) for key in keys}, **facts)


def models(seed=0, names=NAMES, **facts):
    return [model(name, seed, **facts) for name in names]


def slow_scores(report, samples):
    """Metric to the score of the report and its scores on samples of all images, by repeating the drawn queries."""
    times = Draws(int(np.random.SeedSequence(0).generate_state(1)[0]), samples).times(IMAGES.size)
    drawn = {}
    for key, (_, images) in FIELDS.items():
        values = report.per_query[key].values
        drawn[key] = [values.mean(), *(np.repeat(values, count[images]).mean() for count in times)]
    return {"coco_5k/recall_at_1": np.add(drawn[I2T], drawn[T2I]) / 2, ECCV: np.array(drawn[ECCV])}


def slow_agreement(first, second):
    """Tau-b of (M, 1 + S) scores, and its interval over the samples."""
    taus = [
        kendalltau(one.round(9), other.round(9)).statistic
        for one, other in zip(np.transpose(first), np.transpose(second), strict=True)
    ]
    return [taus[0], *np.nanquantile(taus[1:], [0.025, 0.975])]


def test_agreement_of_metrics_equals_tau_b_on_samples():
    reports = models()
    found = measure_agreement(*reports, samples=300, progress=False)
    scores = [slow_scores(report, 300) for report in reports]
    expected = slow_agreement(*([score[key] for score in scores] for key in ("coco_5k/recall_at_1", ECCV)))
    (row,) = found.rows
    assert (row.metric, row.other_metric) == ("coco_5k/recall_at_1", ECCV)
    assert [row.tau, row.low, row.high] == pytest.approx(expected)
    assert row.low < row.tau < row.high


def test_agreement_of_labels_matches_models_by_name():
    old = models()
    new = models(seed=1, **NEW)
    found = measure_agreement(*old, *reversed(new), samples=300, progress=False)
    assert found.labels == ("each task's own labels", "coco + new")
    for metric in ("coco_5k/recall_at_1", ECCV):
        expected = slow_agreement(*([slow_scores(one, 300)[metric] for one in group] for group in (old, new)))
        (row,) = (row for row in found.rows if row.metric == row.other_metric == metric)
        assert [row.tau, row.low, row.high] == pytest.approx(expected)
        assert found.between(metric, metric, *found.labels) == row.tau
    assert len(found.rows) == 1 + 1 + 2


def test_page_lists_scores_on_both_sets_of_labels():
    old = models()
    new = models(seed=1, **NEW)
    found = measure_agreement(*old, *new, samples=300, progress=False)
    _, _, table, _, _ = found.tables()
    assert table.title == "COCO 5K R@1 on each set of labels"
    assert table.headings == ["", "each task's own labels", "coco + new"]
    slow = [[slow_scores(model, 300)["coco_5k/recall_at_1"] for model in group] for group in (old, new)]
    best_first = sorted(range(len(NAMES)), key=lambda place: -slow[0][place][0])
    assert [row[0] for row in table.rows] == [NAMES[place] for place in best_first]
    for row, place in zip(table.rows, best_first, strict=True):
        for cell, of_labels in zip(row[1:], slow, strict=True):
            low, high = 100 * np.quantile(of_labels[place][1:], [0.025, 0.975])
            assert (cell.text, cell.interval) == (f"{100 * of_labels[place][0]:.1f}", f"[{low:.1f}, {high:.1f}]")


def test_order_under_a_rank_is_reversed():
    ranks = {"a": 9.0, "b": 5.0, "c": 2.0}
    fields = dict(zip("abc", (0.2, 0.4, 0.6), strict=True))
    reports = [
        scored(
            name,
            {
                "coco_5k/i2t/recall_at_1": (IMAGES, (40 * fields[name] > IMAGES).astype(float), IMAGES),
                "coco_5k/i2t/median_rank": (IMAGES, np.full(40, rank), IMAGES),
            },
        )
        for name, rank in ranks.items()
    ]
    found = measure_agreement(*reports, samples=100, metrics="all", progress=False)
    assert found.between("coco_5k/i2t/recall_at_1", "coco_5k/i2t/median_rank") == 1


def test_metric_with_same_judgments_joins_no_agreement():
    both = {**NEW["labels"], "repeats": {"eccv_caption/i2t": "coco_5k/i2t"}}
    keys = (I2T, T2I, ECCV)
    twin = "eccv_caption/i2t/recall_at_1"
    reports = []
    for name in NAMES:
        one = model(name, 0, keys)
        values = {key: (FIELDS[key][0], one.per_query[key].values, FIELDS[key][1]) for key in keys}
        reports.append(scored(name, values | {twin: values[I2T]}, labels=both))
    found = measure_agreement(*reports, samples=100, metrics="all", progress=False)
    assert {row.other_metric for row in found.rows} | {row.metric for row in found.rows} == {
        "coco_5k/recall_at_1",
        ECCV,
    }


def test_tables_file_and_page_show_the_agreement():
    found = measure_agreement(*models(), *models(seed=1, **NEW), samples=100, progress=False)
    first, second, *_, labels = found.tables()
    assert first.headings == ["", "COCO 5K R@1"]
    assert first.rows[0][0] == "ECCV Caption i2t mAP@R"
    assert first.rows[0][1].text == f"{found.rows[0].tau:.2f}"
    assert "coco + new" in second.title
    assert [row[0] for row in labels.rows] == ["COCO 5K R@1", "ECCV Caption i2t mAP@R"]
    written = json.loads(found.to_json())["agreement"]
    assert written["rows"][0]["tau"] == found.rows[0].tau
    assert written["settings"]["samples"] == 100
    page = found.to_html()
    assert "Agreement of labels" in page
    assert "Differences from" not in page


def test_metric_with_all_models_tied_is_omitted():
    tied = (IMAGES, np.ones(40), IMAGES)
    reports = [
        scored(one.name, {I2T: (*_queries(one, I2T),), ECCV: (*_queries(one, ECCV),), "cxc/i2t/recall_at_1": tied})
        for one in models()
    ]
    found = measure_agreement(*reports, samples=100, progress=False)
    assert len(found.rows) == 1
    assert found.notes == ("left out, as all models tie: cxc/i2t/recall_at_1",)


def _queries(report, key):
    values = report.per_query[key]
    return values.query_ids, values.values, values.clusters


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        (lambda: models(names=NAMES[:2]), "2 models; the agreement of orders needs at least 3 models"),
        (list, "at least 3 models"),
        (
            lambda: [*models(), *models(names=NAMES[:4], **NEW)],
            "coco \\+ new has a, b, c, d, and each task's own labels a",
        ),
        (lambda: [*models(), *models(names=NAMES[:1])], "same models, each once"),
        (lambda: [*models(names=NAMES[:3]), model("d", 0, split="validation")], "the split is 'test' for a"),
        (lambda: [*models(), *models(split="validation", **NEW)], "the split is 'test' for a"),
        (lambda: models(keys=[ECCV]), "no two metrics"),
    ],
)
def test_orders_that_cannot_agree_are_refused(reports, message):
    with pytest.raises(InvalidOption, match=message):
        measure_agreement(*reports(), samples=100, progress=False)
