"""COCO 1K: a number that is no mean over queries is computed in every fold, and averaged over folds."""

import numpy as np
import pytest

import cxc_eccv as ce
from cxc_eccv.comparison import compare
from cxc_eccv.sources.reading import read_ids
from cxc_eccv.statistics import ClusterBootstrap, Draws
from cxc_eccv.tasks import coco_1k

KEY = "coco_1k/i2t/median_rank"
METRICS = ["recall_at_1", "median_rank"]
FOLDS = 5


@pytest.fixture
def small_folds(monkeypatch):
    """The sample as the whole of COCO 1K."""
    monkeypatch.setattr(coco_1k, "COCO_1K_IMAGES", 60)
    monkeypatch.setattr(coco_1k, "COCO_1K_CAPTIONS", 300)


def fold_of_images(library):
    """Image to its fold, from the raw order of captions."""
    content = library.split("test")
    order = library.read("coco_test_ids", read_ids)
    owner = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    size = order.size // FOLDS
    return {owner[caption]: place // size for place, caption in enumerate(order.tolist())}


def values_by_fold(report, library, key=KEY):
    """The values of every fold, by the images of the queries."""
    folds = fold_of_images(library)
    rows = report.per_query.to_pylist()
    of_key = [row for row in rows if f"{row['task']}/{row['direction']}/{row['metric']}" == key]
    assert all(row["fold"] == folds[row["cluster"]] for row in of_key)
    return [[row["value"] for row in of_key if folds[row["cluster"]] == fold] for fold in range(FOLDS)]


@pytest.fixture
def two_reports(small_folds, sample_library, make_run):
    options = {"data_dir": sample_library, "per_query": True, "progress": False}
    runs = [make_run(sample_library, seed) for seed in (0, 1)]
    return [ce.evaluate(run, "coco_1k", metrics=METRICS, name=f"m{n}", **options) for n, run in enumerate(runs)]


def test_median_rank_averages_medians_of_folds(two_reports, sample_library):
    report = two_reports[0]
    by_fold = values_by_fold(report, sample_library)
    assert report.scores[KEY] == pytest.approx(np.mean([np.median(values) for values in by_fold]))
    assert report.scores[KEY] != np.median(np.concatenate(by_fold))
    recalls = values_by_fold(report, sample_library, "coco_1k/i2t/recall_at_1")
    assert report.scores["coco_1k/i2t/recall_at_1"] == np.mean(np.concatenate(recalls))


def test_median_interval_draws_images_within_folds(two_reports, sample_library):
    """Another generator draws the same images of each fold again and again."""
    report = two_reports[0]
    random = np.random.default_rng(7)
    medians = []
    for values in values_by_fold(report, sample_library):
        drawn = random.choice(values, (20_000, len(values)))
        medians.append(np.median(drawn, axis=1))
    low, high = np.quantile(np.mean(medians, axis=0), [0.025, 0.975])
    result = next(row for row in report.results if row.key == KEY)
    assert result.low == pytest.approx(low, rel=0.05)
    assert result.high == pytest.approx(high, rel=0.05)


def test_draws_of_two_folds_differ():
    values = np.arange(12.0)
    draws = Draws(0)
    together = ClusterBootstrap(np.arange(24), draws).medians(np.tile(values, 2), np.repeat([0, 1], 12))
    alone = ClusterBootstrap(np.arange(12), draws).medians(values)
    assert together.var() == pytest.approx(alone.var() / 2, rel=0.15)


def test_compared_median_ranks_are_those_of_folds(two_reports):
    row = next(row for row in compare(*two_reports, metrics="all").differences if row.key == KEY)
    old, new = (report.scores[KEY] for report in two_reports)
    assert row.difference == pytest.approx(new - old)
    assert row.low < row.difference < row.high


def test_bounds_of_median_rank_average_folds(small_folds, sample_library, make_run):
    """Without a label for anything else, the best labels give rank 1 to all, and random ones lie between."""
    options = {"bounds": True, "judge": lambda images, captions: np.full(images.size, 0.01)}
    run = make_run(sample_library)
    report = ce.evaluate(run, "coco_1k/i2t", metrics=["median_rank"], data_dir=sample_library, **options)
    bounds = report.results[0].bounds
    assert bounds.high == report.scores[KEY]
    assert bounds.low < bounds.expected < bounds.high
    certain = {"bounds": True, "judge": lambda images, captions: np.zeros(images.size)}
    report = ce.evaluate(run, "coco_1k/i2t", metrics=["median_rank"], data_dir=sample_library, **certain)
    assert report.results[0].bounds.expected == pytest.approx(report.scores[KEY])


def test_tasks_without_folds_have_null_folds(sample_library, make_run):
    report = ce.evaluate(make_run(sample_library), "coco_5k", data_dir=sample_library, per_query=True)
    assert report.per_query["fold"].null_count == report.per_query.num_rows


@pytest.mark.reference
def test_five_folds_of_real_data_differ_from_pooled(real_library, make_run):
    report = ce.evaluate(
        make_run(real_library), "coco_1k/t2i", metrics=["median_rank"], data_dir=real_library, per_query=True
    )
    by_fold = values_by_fold(report, real_library, "coco_1k/t2i/median_rank")
    assert [len(values) for values in by_fold] == [5_000] * FOLDS
    assert report.scores["coco_1k/t2i/median_rank"] == np.mean([np.median(values) for values in by_fold])
