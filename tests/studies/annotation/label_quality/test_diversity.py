"""How alike models rank: tau-b of whole rows of scores, as SciPy computes it, and places of first items."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from cxc_eccv.ranking import ranked
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.studies.annotation.label_quality import diversity
from cxc_eccv.studies.annotation.label_quality.appraisal import AppraisalRequest, appraise
from cxc_eccv.studies.annotation.label_quality.diversity import correlate_scores, place_first
from cxc_eccv.types import Embeddings, TopK

IMAGES = np.arange(10, 40)
CAPTIONS = np.arange(100, 170)


def draw_run(seed, levels):
    """Scores of few levels tie; the first image has one score with all captions."""
    scores = np.random.default_rng(seed).integers(levels, size=(IMAGES.size, CAPTIONS.size)).astype(np.float32)
    scores[0] = 1
    return ScoresRun(IMAGES, CAPTIONS, scores)


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize("at_once", [1, 200, 10**6])
def test_correlations_are_those_of_scipy(direction, at_once, monkeypatch):
    monkeypatch.setattr(diversity, "SCORES_AT_ONCE", at_once)
    runs = {"few": draw_run(1, 2), "some": draw_run(2, 5), "many": draw_run(3, 10**6)}
    # Ids in another order, and only a part of the file's queries.
    query_ids, gallery_ids = (IMAGES[:17], CAPTIONS) if direction == "i2t" else (CAPTIONS[5:], IMAGES[::-1])
    models = {name: ranked(run) for name, run in runs.items()}
    found = correlate_scores(models, query_ids, gallery_ids, direction)
    rows = query_ids - (IMAGES[0] if direction == "i2t" else CAPTIONS[0])
    # In double precision: newer versions of SciPy compute in that of the scores.
    exact = {name: run.scores.astype(np.float64) for name, run in runs.items()}
    scores = {name: (of_run if direction == "i2t" else of_run.T)[rows] for name, of_run in exact.items()}
    for (one, other), values in found.values.items():
        expected = [kendalltau(*both).statistic for both in zip(scores[one], scores[other], strict=True)]
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)
        assert np.isnan(values).sum() == (direction == "i2t")
    assert (len(found.values), found.not_computed) == (3, {})


def test_vectors_and_complete_lists_correlate_too():
    random = np.random.default_rng(4)
    vectors = [random.integers(-1, 2, (ids.size, 3)) + np.float32(0.5) for ids in (IMAGES, CAPTIONS)]
    run = EmbeddingsRun(Embeddings(IMAGES, vectors[0]), Embeddings(CAPTIONS, vectors[1]), similarity="dot")
    order = np.stack([random.permutation(CAPTIONS) for _ in IMAGES])
    lists = RankingsRun.from_dicts(dict(zip(IMAGES.tolist(), order.tolist(), strict=True)))
    found = correlate_scores({"vectors": ranked(run), "lists": ranked(lists)}, IMAGES, CAPTIONS, "i2t")
    (values,) = found.values.values()
    scores = vectors[0] @ vectors[1].T
    expected = [kendalltau(*both).statistic for both in zip(scores, -np.argsort(order, axis=1), strict=True)]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


def test_lists_that_end_early_have_no_correlation():
    short = RankingsRun.from_dicts({image: CAPTIONS[:25].tolist() for image in IMAGES.tolist()})
    models = {"short": ranked(short), "one": ranked(draw_run(1, 5)), "other": ranked(draw_run(2, 5))}
    found = correlate_scores(models, IMAGES, CAPTIONS, "i2t")
    assert [*found.values] == [("one", "other")]
    assert "needs 70 ranked items for the order of the whole gallery" in found.not_computed["short"]


def test_undefined_correlations_are_counted_and_said(sample_library):
    split = sample_library.split("test")
    images = split.images["image_id"].to_numpy()
    captions = split.captions["caption_id"].to_numpy()
    random = np.random.default_rng(5)
    scores = random.random((images.size, captions.size), dtype=np.float32)
    partly = random.random((images.size, captions.size), dtype=np.float32)
    partly[:7] = 0.5
    runs = {
        "one": ScoresRun(images, captions, scores),
        "partly": ScoresRun(images, captions, partly),
        "constant": ScoresRun(images, captions, np.zeros_like(scores)),
    }
    found = appraise(sample_library, AppraisalRequest(runs=runs, sets=[["coco"]]))
    rows = {(row.one, row.other): row for row in found.diversity if row.direction == "i2t"}
    assert (rows["one", "partly"].n_correlated, rows["one", "partly"].n_queries) == (53, 60)
    assert (rows["one", "constant"].correlation, rows["one", "constant"].n_correlated) == (None, 0)
    text = found.to_markdown()
    assert "one and partly: 7 of 60" in text
    assert "tau-b/one/constant/i2t" in found.not_computed
    assert any("one score to all items of every query" in line for line in found.footnotes())


def test_another_places_the_first_item():
    one = draw_tops(3)
    other = draw_tops(4)
    expected = [
        right.index(left[0]) + 1 if left[0] in right else np.nan
        for left, right in zip(one.ids.tolist(), other.ids.tolist(), strict=True)
    ]
    assert np.array_equal(place_first(one, other), expected, equal_nan=True)
    assert np.isnan(expected).any()


def draw_tops(seed, depth=6, items=9, queries=40):
    random = np.random.default_rng(seed)
    return TopK(np.arange(queries), np.stack([random.permutation(items)[:depth] for _ in range(queries)]))
