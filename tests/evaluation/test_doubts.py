"""Doubts: what runs of all kinds say of themselves, and good ones do not."""

import json

import numpy as np
import pytest

import cxc_eccv as ce
from cxc_eccv.discovery import find_declared
from cxc_eccv.evaluation import doubts
from cxc_eccv.report import Report
from cxc_eccv.runs import DirectionScoresRun, EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import Embeddings


@pytest.fixture(scope="module")
def split(sample_library):
    return sample_library.split("test")


@pytest.fixture(scope="module")
def own(split):
    """Whether each caption is of each image."""
    return split.image_ids[:, None] == split.caption_image_ids


def vectors(split, noise=1.2):
    """Random image vectors; a caption is its image's vector and noise, so that noise 10 is a weak model."""
    random = np.random.default_rng(0)
    images = random.standard_normal((split.image_ids.size, 32)).astype("float32")
    owners = np.searchsorted(split.image_ids, split.caption_image_ids, sorter=np.argsort(split.image_ids))
    of_captions = images[np.argsort(split.image_ids)[owners]]
    captions = of_captions + noise * random.standard_normal(of_captions.shape).astype("float32")
    return images, captions.astype("float32")


def embeddings(split, images, captions):
    return EmbeddingsRun(Embeddings(split.image_ids, images), Embeddings(split.caption_ids, captions))


def cosines(split, noise=1.2):
    images, captions = vectors(split, noise)
    units = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (images, captions)]
    return units[0] @ units[1].T


def softmax(scores, axis, scale=20.0):
    powers = np.exp(scale * scores)
    return powers / powers.sum(axis=axis, keepdims=True)


def fill(scores, kept=20, value=-100.0):
    """All but the best captions of each image at one value."""
    least = np.sort(scores, axis=1)[:, -kept][:, None]
    return np.where(scores < least, np.float32(value), scores)


def trec(split, scores):
    """Whole rankings with scores, in both directions."""
    lists = {}
    for direction, matrix, queries, items in (
        ("i2t", scores, split.image_ids, split.caption_ids),
        ("t2i", scores.T, split.caption_ids, split.image_ids),
    ):
        order = np.argsort(-matrix, axis=1, kind="stable")
        ordered = np.take_along_axis(matrix, order, axis=1).astype(float)
        sizes = np.arange(len(queries) + 1) * len(items)
        lists[direction] = RankedLists(queries, sizes, items[order].ravel(), ordered.ravel())
    return RankingsRun(lists)


def cut(split, scores, depth=10, *, worst_first=False):
    """The best captions of each image, without scores."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    if worst_first:
        order = order[:, ::-1]
    return RankingsRun.from_dicts(i2t=dict(zip(split.image_ids.tolist(), split.caption_ids[order], strict=True)))


def distances(split, scores, depth=10):
    """The distances of the nearest images of each caption."""
    lists = {}
    for caption, row in zip(split.caption_ids.tolist(), 1 - scores.T, strict=True):
        nearest = np.argsort(row)[:depth]
        lists[caption] = dict(zip(split.image_ids[nearest].tolist(), row[nearest].tolist(), strict=True))
    return lists


GOOD = {
    "cosines": lambda split: embeddings(split, *vectors(split)),
    "weak honest model": lambda split: embeddings(split, *vectors(split, noise=10)),
    "float16 cosines": lambda split: scores_run(split, cosines(split).astype("float16").astype("float32")),
    "sigmoid scores": lambda split: scores_run(split, 1 / (1 + np.exp(-5 * cosines(split)))),
    "int8 vectors as floats": lambda split: embeddings(
        split, *(np.rint(30 * side).clip(-127, 127).astype("float32") for side in vectors(split))
    ),
    "TREC run": lambda split: trec(split, cosines(split)),
    "weak model's lists": lambda split: cut(split, cosines(split, noise=4)),
    "rankings without scores": lambda split: cut(split, cosines(split)),
}


def direction_scores(split, i2t, t2i):
    return DirectionScoresRun(split.image_ids, split.caption_ids, i2t, t2i)


def scores_run(split, scores):
    return ScoresRun(split.image_ids, split.caption_ids, scores)


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_good_runs_raise_no_doubt(make, split, sample_library):
    assert ce.evaluate(make(split), data_dir=sample_library).doubts == {}


def test_oracle_of_zeros_and_ones_raises_no_doubt(split, own, sample_library):
    report = ce.evaluate(scores_run(split, own.astype("float32")), "coco_5k", data_dir=sample_library)
    assert report.doubts == {}
    assert report.scores["coco_5k/i2t/recall_at_1"] == report.results[0].if_ties_help == 1


def test_bag_of_words_raises_no_doubt(split, sample_library):
    texts = [set(text.lower().split()) for text in split.captions["text"].to_pylist()]
    words = sorted(set().union(*texts))
    bags = np.array([[word in text for word in words] for text in texts], dtype="float32")
    run = EmbeddingsRun(None, Embeddings(split.caption_ids, bags))
    assert "lowest_score" not in ce.evaluate(run, data_dir=sample_library).doubts
    assert "random_order" not in ce.evaluate(run, data_dir=sample_library).doubts


def test_softmax_over_ranked_items_raises_no_doubt(split, sample_library):
    run = direction_scores(split, softmax(cosines(split), 1), softmax(cosines(split), 0).T)
    assert ce.evaluate(run, data_dir=sample_library).doubts == {}


BAD = {
    "distances": (lambda split: scores_run(split, 1 - cosines(split)), "random_order", "Are the scores distances"),
    "rows of other ids": (
        lambda split: embeddings(split, vectors(split)[0], np.roll(vectors(split)[1], 5, axis=0)),
        "random_order",
        "in another order than the ids",
    ),
    "cut distances": (
        lambda split: cut(split, 1 - cosines(split), depth=20),
        "random_order",
        "R@20 is 0.0%",
    ),
    "nearest items worst first": (
        lambda split: cut(split, cosines(split), worst_first=True),
        "reversed_rankings",
        "Are the lists worst first",
    ),
    "distances of the nearest items": (
        lambda split: RankingsRun.from_dicts(t2i=distances(split, cosines(split, noise=2))),
        "reversed_rankings",
        "Are the scores distances or ranks",
    ),
    "softmax over images": (lambda split: scores_run(split, softmax(cosines(split), 0)), "softmax_scores", "in i2t"),
    "softmax over captions": (lambda split: scores_run(split, softmax(cosines(split), 1)), "softmax_scores", "in t2i"),
    "softmax in percent": (
        lambda split: scores_run(split, 100 * softmax(cosines(split), 0)),
        "softmax_scores",
        "in i2t",
    ),
    "softmax that underflows": (
        lambda split: scores_run(split, softmax(cosines(split), 0, scale=80).astype("float16")),
        "softmax_scores",
        "in i2t",
    ),
    "log softmax": (lambda split: scores_run(split, np.log(softmax(cosines(split), 0))), "softmax_scores", "in i2t"),
    "float16 softmax": (
        lambda split: scores_run(split, softmax(cosines(split), 0).astype("float16")),
        "softmax_scores",
        "in i2t",
    ),
    "softmax over the images of i2t": (
        lambda split: direction_scores(split, softmax(cosines(split), 0), softmax(cosines(split), 0).T),
        "softmax_scores",
        "in i2t",
    ),
    "softmax over the captions of t2i": (
        lambda split: direction_scores(split, softmax(cosines(split), 1), softmax(cosines(split), 1).T),
        "softmax_scores",
        "in t2i",
    ),
    "filler of one direction": (
        lambda split: direction_scores(split, cosines(split), fill(cosines(split).T, kept=4)),
        "lowest_score",
        "save unscored=-100.0 in the file, or a mask",
    ),
    "filler": (lambda split: scores_run(split, fill(cosines(split))), "lowest_score", "the lowest score, -100"),
    "rounded": (lambda split: scores_run(split, np.round(cosines(split), 1)), "deciding_ties", "if below"),
}


@pytest.mark.parametrize(("make", "name", "words"), BAD.values(), ids=BAD)
def test_suspect_runs_raise_one_doubt(make, name, words, split, sample_library):
    report = ce.evaluate(make(split), data_dir=sample_library)
    assert list(report.doubts) == [name]
    assert words in report.doubts[name]
    assert "Check this first" in str(report)


def test_metrics_of_other_queries_do_not_confuse_doubts(split, sample_library):
    """Ranks are of 300 captions, nDCG is of those with ratings."""
    options = {"metrics": ["recall_at_1", "ndcg_at_10"], "data_dir": sample_library}
    report = ce.evaluate(BAD["rows of other ids"][0](split), "cxc/t2i", **options)
    assert len({row.n_queries for row in report.results}) == 2
    assert list(report.doubts) == ["random_order"]


@pytest.mark.parametrize("limit", [1, 2])
def test_few_images_raise_no_doubt_of_order(limit, split, sample_library):
    run = scores_run(split, -cosines(split))
    assert "random_order" not in ce.evaluate(run, "coco_5k", data_dir=sample_library, limit=limit).doubts


def test_sum_alone_shows_what_ties_decide(split, sample_library):
    rounded = BAD["rounded"][0](split)
    report = ce.evaluate(rounded, "coco_5k", metrics=["rsum"], data_dir=sample_library)
    assert "coco_5k/rsum" in report.doubts["deciding_ties"]


def test_doubts_are_found_in_order_of_causes():
    declared = find_declared(doubts, "DOUBT", doubts.Doubt)
    assert set(declared) == {
        *("cut_rankings", "deciding_ties", "lowest_score", "random_order", "reversed_rankings", "softmax_scores")
    }
    order = [doubt.name for doubt in doubts._declared_doubts()]
    for doubt in declared.values():
        assert all(order.index(doubt.name) < order.index(effect) for effect in doubt.explains)


def test_doubts_survive_report_json(split, sample_library):
    report = ce.evaluate(scores_run(split, 1 - cosines(split)), "coco_5k", data_dir=sample_library)
    text = report.to_json()
    assert json.loads(text)["doubts"] == dict(report.doubts)
    assert Report.from_json(text).doubts == report.doubts


def test_constant_scores_outrank_half_by_chance(split, sample_library):
    report = ce.evaluate(scores_run(split, np.zeros_like(cosines(split))), "coco_5k", data_dir=sample_library)
    assert "they outrank 50.0% (by chance 50.0%)" in report.doubts["random_order"]


def test_chance_is_the_mean_of_random_orders(split, sample_library):
    """Random score matrices scatter around the formulas."""
    random = np.random.default_rng(0)
    values = []
    metrics = ["recall_at_1", "recall_at_10", "map_at_r", "r_precision", "mean_rank"]
    options = {"metrics": metrics, "data_dir": sample_library, "confidence": None, "progress": False}
    for _ in range(60):
        scores = random.random((split.image_ids.size, split.caption_ids.size), dtype="float32")
        values.append(ce.evaluate(scores_run(split, scores), "eccv_caption", **options).results)
    for place, row in enumerate(values[0]):
        drawn = np.array([results[place].value for results in values])
        assert row.chance == pytest.approx(drawn.mean(), abs=4 * drawn.std() / np.sqrt(drawn.size))


def test_chance_of_the_median_equals_the_mixtures(split, sample_library):
    options = {"metrics": ["median_rank"], "data_dir": sample_library, "confidence": None}
    row = ce.evaluate(scores_run(split, cosines(split)), "coco_5k/i2t", **options).results[0]
    best = np.random.default_rng(0).permuted(np.tile(np.arange(1, 301), (20_000, 1)), axis=1)[:, :5].min(axis=1)
    assert row.chance == pytest.approx(np.median(best), abs=1)


def test_chance_is_missing_where_no_formula_is_known(split, sample_library):
    report = ce.evaluate(scores_run(split, cosines(split)), data_dir=sample_library)
    without = {row.metric for row in report.results if row.chance is None}
    assert without == {
        *("bootstrap_spearman", "bootstrap_spearman_std", "entail_at_1", "entail_at_5", "entail_at_10"),
        *("entail_at_30", "pmrp", "pmrp_at_50"),
    }
