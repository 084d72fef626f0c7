"""Scores by direction and scores of some pairs, against plain Python loops and against the other forms of a run."""

import dataclasses
import json

import numpy as np
import oracles
import pytest

import cxc_eccv as ce
from cxc_eccv.ranking import ranked
from cxc_eccv.registry import task
from cxc_eccv.runs import RankingsRun, ScoresRun, make_direction_scores, make_scores
from cxc_eccv.types import Judgments

TASKS = ("coco_5k", "cxc", "eccv_caption")
METRICS = ("recall_at_1", "recall_at_5", "recall_at_10", "map_at_r", "r_precision")


@pytest.fixture(scope="module")
def split(sample_library):
    return sample_library.split("test")


@pytest.fixture(scope="module")
def matrices(split):
    """Scores of both directions that have nothing to do with each other, and many ties."""
    random = np.random.default_rng(5)
    shape = split.image_ids.size, split.caption_ids.size
    own = split.image_ids[:, None] == split.caption_image_ids
    i2t = np.round(random.standard_normal(shape) + 2 * own, 1).astype("float32")
    t2i = np.round(random.standard_normal(shape).T + own.T, 1)
    return {"i2t": i2t, "t2i": t2i}


@pytest.fixture(scope="module")
def masks(matrices):
    """The pairs with the best scores of another model, ten of every query at least."""
    random = np.random.default_rng(6)
    found = {}
    for direction, matrix in matrices.items():
        first_stage = matrix + random.standard_normal(matrix.shape)
        found[direction] = first_stage >= np.sort(first_stage, axis=1)[:, -20][:, None]
    return found


def make(split, matrices, **options):
    return make_direction_scores(**matrices, image_ids=split.image_ids, caption_ids=split.caption_ids, **options)


def count_slowly(split, matrices, masks=None):
    """Number to its mean over queries, by loops over dictionaries; other pairs stand below those that were scored."""
    numbers = {}
    for direction, matrix in matrices.items():
        sides = [split.image_ids.tolist(), split.caption_ids.tolist()]
        queries, items = sides if direction == "i2t" else sides[::-1]
        scores = {}
        for row, query in enumerate(queries):
            scores[query] = {}
            for column, item in enumerate(items):
                if masks is None or masks[direction][row, column]:
                    scores[query][item] = float(matrix[row, column])
        for name in TASKS:
            judgments = task(name).judgments(split, direction)
            values = []
            for (query, positives), reach in zip(
                oracles.positives_of(judgments).items(), judgments.unreachable, strict=True
            ):
                gallery = set(oracles.gallery_of(judgments, query))
                of_query = {item: score for item, score in scores[query].items() if item in gallery}
                order = oracles.ranking(of_query, positives)
                values.append(oracles.values_of(order, positives, len(positives) + int(reach)))
            for metric in METRICS:
                numbers[f"{name}/{direction}/{metric}"] = np.mean([value[metric] for value in values])
    return numbers


def check_shared(report, expected, least):
    shared = report.scores.keys() & expected.keys()
    assert len(shared) >= least
    for key in shared:
        assert report.scores[key] == pytest.approx(expected[key], abs=1e-12), key


def test_directions_equal_plain_loops(split, matrices, report_of):
    report = report_of(make(split, matrices), TASKS, confidence=None)
    check_shared(report, count_slowly(split, matrices), least=20)


def test_scored_pairs_equal_plain_loops(split, matrices, masks, report_of):
    run = make(split, matrices, scored_i2t=masks["i2t"], scored_t2i=masks["t2i"])
    report = report_of(run, TASKS, confidence=None)
    check_shared(report, count_slowly(split, matrices, masks), least=20)


def test_one_matrix_equals_itself_and_its_transpose(split, matrices, report_of):
    """All that a report says, rated pairs and what is skipped included."""
    scores = matrices["i2t"]
    plain = report_of(ScoresRun(split.image_ids, split.caption_ids, scores))
    both = report_of(make(split, {"i2t": scores, "t2i": scores.T}))
    assert [*map(dataclasses.astuple, both.results)] == [*map(dataclasses.astuple, plain.results)]
    assert "cxc/sits/bootstrap_spearman" in plain.scores
    assert both.skipped == plain.skipped
    assert both.doubts == plain.doubts


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_one_direction_equals_that_of_both(direction, split, matrices, report_of):
    other = {"i2t": "t2i", "t2i": "i2t"}[direction]
    both = report_of(make(split, matrices), confidence=None)
    report = report_of(make(split, {direction: matrices[direction]}), confidence=None)
    expected = {key: value for key, value in both.scores.items() if f"/{direction}/" in key}
    assert {key: value for key, value in report.scores.items() if "/sits/" not in key} == expected
    assert report.skipped[f"eccv_caption/{other}"] == f"the run has no scores_{other}"
    assert both.skipped["cxc/sits"] == "a pair has other scores in scores_i2t than in scores_t2i"


@pytest.mark.parametrize("form", ["masks", "number", "plain mask"])
def test_scored_pairs_equal_the_same_rankings(form, split, matrices, masks, report_of, tmp_path):
    """Without ties, rankings in dicts say all that scores say."""
    random = np.random.default_rng(7)
    untied = {name: matrix + 0.01 * random.random(matrix.shape) for name, matrix in matrices.items()}
    ids = {"image_ids": split.image_ids, "caption_ids": split.caption_ids}
    if form == "plain mask":
        untied["t2i"] = untied["i2t"].T
        masks = {"i2t": masks["i2t"] | masks["t2i"].T, "t2i": masks["i2t"].T | masks["t2i"]}
        np.savez(tmp_path / "run.npz", scores=untied["i2t"], scored=masks["i2t"], **ids)
    else:
        filled = {name: np.where(masks[name], matrix, -100.0) for name, matrix in untied.items()}
        entries = {f"scores_{name}": matrix for name, matrix in filled.items()}
        entries |= {"unscored": -100} if form == "number" else {f"scored_{name}": mask for name, mask in masks.items()}
        np.savez(tmp_path / "run.npz", **entries, **ids)
    dicts = {}
    for direction, matrix in untied.items():
        queries, items = (
            (split.image_ids, split.caption_ids) if direction == "i2t" else (split.caption_ids, split.image_ids)
        )
        dicts[direction] = {}
        for query, scores, mask in zip(queries.tolist(), matrix, masks[direction], strict=True):
            dicts[direction][query] = items[mask][np.argsort(-scores[mask])].tolist()
    report = report_of(ce.load_run(tmp_path / "run.npz"), confidence=None)
    expected = report_of(RankingsRun.from_dicts(**dicts), confidence=None)
    assert report.scores == expected.scores
    assert report.skipped == expected.skipped
    assert any("its ranking ends at rank" in reason for reason in report.skipped.values())


def test_report_says_how_many_pairs_were_scored(split, matrices, masks, report_of, tmp_path):
    run = make(split, matrices, scored_i2t=masks["i2t"], scored_t2i=masks["t2i"])
    report = report_of(run, "coco_5k", metrics=["recall_at_5"], confidence=None)
    report.save(tmp_path)
    facts = json.loads((tmp_path / "report.json").read_text())["provenance"]["run"]
    assert facts["kind"] == "rankings"
    assert facts["directions"]["i2t"]["scored_share"] == masks["i2t"].mean()
    assert facts["directions"]["t2i"]["deepest"] == masks["t2i"].sum(axis=1).max()


def test_thousand_images_rank_as_in_other_forms():
    """1,000 images with 5,000 captions, ties included."""
    random = np.random.default_rng(8)
    image_ids = np.arange(1_000)
    caption_ids = np.arange(10_000, 15_000)
    scores = np.round(random.standard_normal((1_000, 5_000)), 2).astype("float32")
    queries = np.repeat(image_ids, 5)
    judgments = {
        "i2t": Judgments.from_pairs(image_ids, caption_ids, queries, caption_ids),
        "t2i": Judgments.from_pairs(caption_ids, image_ids, caption_ids, queries),
    }
    mask = random.random(scores.shape) < 0.1
    plain = ranked(ScoresRun(image_ids, caption_ids, scores))
    both = ranked(make_direction_scores(scores, scores.T, image_ids=image_ids, caption_ids=caption_ids))
    cut = ranked(make_scores(image_ids, caption_ids, scores, scored=mask))
    for direction, judged in judgments.items():
        ranks = plain.rank(judged, direction)
        np.testing.assert_array_equal(ranks.ranks, both.rank(judged, direction).ranks)
        np.testing.assert_array_equal(ranks.ties, both.rank(judged, direction).ties)
        matrix, scored = (scores, mask) if direction == "i2t" else (scores.T, mask.T)
        found = cut.rank(judged, direction)
        for row in range(0, judged.query_ids.size, 97):
            positives = set(judged.indices[judged.indptr[row] : judged.indptr[row + 1]].tolist())
            columns = np.flatnonzero(scored[row]).tolist()
            order = oracles.ranking({column: matrix[row, column] for column in columns}, positives)
            expected = oracles.positive_ranks(order, positives)
            assert found.ranks[found.indptr[row] : found.indptr[row + 1]].tolist() == expected
