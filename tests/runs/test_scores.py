"""Scores by direction and scores of some pairs: what a file says, what it becomes, and what is refused."""

import numpy as np
import pytest

from cxc_eccv.errors import MalformedRun, MissingIds
from cxc_eccv.ranking import ranked
from cxc_eccv.runs import (
    DirectionScoresRun,
    RankingsRun,
    ScoresRun,
    load_run,
    make_direction_scores,
    make_scores,
)
from cxc_eccv.types import Judgments

IMAGES = np.array([11, 12])
CAPTIONS = np.array([21, 22, 23])
I2T = np.array([[0.1, 0.9, 0.5], [0.3, 0.2, 0.8]], dtype="float32")
T2I = I2T.T + 1
IDS = {"image_ids": IMAGES, "caption_ids": CAPTIONS}
SQUARE = {"image_ids": IMAGES, "caption_ids": CAPTIONS[:2]}
HALF = np.array([[True, False, True], [False, True, False]])


def load(folder, **arrays):
    np.savez(folder / "run.npz", **arrays)
    return load_run(folder / "run.npz")


def lists_of(run, direction):
    """Query to its items and scores, in the order of the ranking."""
    lists = run.lists[direction]
    bounds = lists.indptr[1:-1]
    return {
        query: list(zip(items.tolist(), scores.tolist(), strict=True))
        for query, items, scores in zip(
            lists.query_ids.tolist(), np.split(lists.items, bounds), np.split(lists.scores, bounds), strict=True
        )
    }


def test_file_of_two_directions_holds_both(tmp_path):
    run = load(tmp_path, **IDS, scores_i2t=I2T, scores_t2i=T2I, model="blip")
    assert isinstance(run, DirectionScoresRun)
    np.testing.assert_array_equal(run.matrices["i2t"], I2T)
    np.testing.assert_array_equal(run.matrices["t2i"], T2I)
    facts = run.facts()
    assert (facts.kind, facts.file, facts.model) == ("scores", "run.npz", "blip")
    assert facts.matrices == {"i2t": "float32", "t2i": "float32"}
    assert len(facts.sha256) == 64


@pytest.mark.parametrize(("direction", "other"), [("i2t", "t2i"), ("t2i", "i2t")])
def test_file_of_one_direction_has_no_other(direction, other, tmp_path):
    run = load(tmp_path, **IDS, **{f"scores_{direction}": {"i2t": I2T, "t2i": T2I}[direction]})
    assert run.why_not(direction) is None
    assert run.why_not(other) == f"the run has no scores_{other}"
    assert run.why_not("t2t") == "scores of images with captions do not rank t2t"
    assert run.why_unrated("i2t") == run.why_not("i2t")
    judgments = Judgments.from_pairs(IMAGES, CAPTIONS, IMAGES, CAPTIONS[:2])
    turned = Judgments.from_pairs(CAPTIONS, IMAGES, CAPTIONS, IMAGES[[0, 1, 0]])
    with pytest.raises(MissingIds, match=f"has no {other} scores, only {direction}"):
        ranked(run).rank({"i2t": judgments, "t2i": turned}[other], other)


def test_pairs_with_two_scores_have_no_similarity():
    assert make_direction_scores(I2T, T2I, **IDS).why_unrated("i2t") == (
        "a pair has other scores in scores_i2t than in scores_t2i"
    )
    rounding = make_direction_scores(I2T, I2T.T.astype("float16"), **IDS)
    assert rounding.why_unrated("i2t") is None
    np.testing.assert_array_equal(rounding.pair_scores, I2T)


def test_stated_axes_turn_a_matrix(tmp_path):
    square = I2T[:, :2]
    turned = load(tmp_path, **SQUARE, scores_t2i=square, axes_t2i=["images", "captions"])
    as_made = load(tmp_path, **SQUARE, scores_t2i=square, axes_t2i=["captions", "images"])
    np.testing.assert_array_equal(turned.t2i, square.T)
    np.testing.assert_array_equal(as_made.t2i, square)
    oblong = make_direction_scores(t2i=I2T, axes_t2i=("images", "captions"), scored_t2i=HALF, **IDS)
    usual = make_direction_scores(t2i=I2T.T, scored_t2i=HALF.T, **IDS)
    assert lists_of(oblong, "t2i") == lists_of(usual, "t2i")


def test_masks_leave_rankings_of_scored_pairs(tmp_path):
    """By hand; the values of other pairs are not read, so they may be NaN."""
    masked = np.where(HALF, I2T, np.nan)
    run = load(tmp_path, **IDS, scores_i2t=masked, scored_i2t=HALF, scores_t2i=T2I, model="blip")
    assert isinstance(run, RankingsRun)
    assert run.model == "blip"
    assert lists_of(run, "i2t") == {11: [(23, 0.5), (21, pytest.approx(0.1))], 12: [(22, pytest.approx(0.2))]}
    assert {query: [item for item, _ in row] for query, row in lists_of(run, "t2i").items()} == {
        21: [12, 11],
        22: [11, 12],
        23: [12, 11],
    }
    directions = run.facts().directions
    assert directions["i2t"].scored_share == 0.5
    assert (directions["i2t"].shallowest, directions["i2t"].deepest, directions["i2t"].file) == (1, 2, "run.npz")
    assert directions["t2i"].scored_share == 1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("filler", [-100, -99.9, -np.inf, 0])
def test_number_of_unscored_pairs_equals_a_mask(dtype, filler, tmp_path):
    filled = np.where(HALF, I2T.astype(dtype), np.dtype(dtype).type(filler))
    by_number = load(tmp_path, **IDS, scores_i2t=filled, scores_t2i=filled.T, unscored=filler)
    by_mask = make_direction_scores(filled, filled.T, scored_i2t=HALF, scored_t2i=HALF.T, **IDS)
    plain = load(tmp_path, **IDS, scores=filled, unscored=filler)
    plain_mask = load(tmp_path, **IDS, scores=filled, scored=HALF)
    for direction in ("i2t", "t2i"):
        expected = lists_of(by_mask, direction)
        assert lists_of(by_number, direction) == expected
        assert lists_of(plain, direction) == expected
        assert lists_of(plain_mask, direction) == expected


def test_query_without_scored_pair_is_left_out():
    run = make_scores(*IDS.values(), I2T, scored=np.array([[True, False, False], [False, False, True]]))
    assert run.query_ids("t2i").tolist() == [21, 23]


def test_mask_of_all_pairs_cuts_nothing():
    everything = np.ones((2, 3), dtype=bool)
    assert isinstance(make_scores(*IDS.values(), I2T, scored=everything), ScoresRun)
    assert isinstance(make_direction_scores(I2T, T2I, scored_i2t=everything, **IDS), DirectionScoresRun)


def test_one_outlier_does_not_hide_differences():
    big = {"image_ids": np.arange(20), "caption_ids": np.arange(40)}
    random = np.random.default_rng(0)
    one, other = random.random((20, 40)), random.random((40, 20))
    one[0, 0] = other[0, 0] = -2_000
    assert make_direction_scores(one, other, **big).differ
    assert not make_direction_scores(one, one.T.astype(np.float32), **big).differ


def change(matrix, value):
    changed = matrix.copy()
    changed[1, 2] = value
    return changed


FILLED = np.where(HALF, I2T, np.float32(-100))

REFUSED = {
    "both forms": ({**IDS, "scores": I2T, "scores_i2t": I2T}, r"both scores and scores_i2t; save scores alone"),
    "vectors too": ({**IDS, "scores_i2t": I2T, "image_embeddings": I2T}, r"both scores_i2t and image_embeddings"),
    "no ids": ({"scores_i2t": I2T, "image_ids": IMAGES}, r"holds scores_i2t but not caption_ids"),
    "unknown mask": ({**IDS, "scores_i2t": I2T, "mask_i2t": HALF}, r"holds mask_i2t, which nothing reads.*scored_i2t"),
    "mask of the other form": ({**IDS, "scores": I2T, "scored_i2t": HALF}, r"holds scored_i2t.*known are.*scored,"),
    "mask alone": ({**IDS, "scores_i2t": I2T, "scored_t2i": HALF.T}, r"mask or axes of scores_t2i but not scores_t2i"),
    "transposed": (
        {**IDS, "scores_t2i": I2T},
        r"shape \(2, 3\), expected \(3, 2\): a row per caption.*save scores_t2i.T",
    ),
    "transposed mask": ({**IDS, "scores_i2t": I2T, "scored_i2t": HALF.T}, r"scored_i2t: .*save scored_i2t.T"),
    "integers as mask": (
        {**IDS, "scores_i2t": I2T, "scored_i2t": HALF.astype(int)},
        r"scored_i2t: has type int64.*astype\(bool\)",
    ),
    "inverse mask": ({**IDS, "scores_i2t": FILLED, "scored_i2t": ~HALF}, r"True means scored; save the inverse"),
    "empty mask": ({**IDS, "scores_i2t": I2T, "scored_i2t": HALF & ~HALF}, r"no pair is scored"),
    "mask and number": ({**IDS, "scores_i2t": FILLED, "scored_i2t": HALF, "unscored": -100}, r"save one of them"),
    "other filler": (
        {**IDS, "scores_i2t": FILLED, "unscored": 100},
        r"unscored is 100, but no pair .*lowest is -100",
    ),
    "filler of one direction": (
        {**IDS, "scores_i2t": FILLED, "scores_t2i": T2I, "unscored": -100},
        r"scores_t2i: unscored is -100, but no pair .*save masks in place of unscored",
    ),
    "filler that the type rounds away": (
        {**IDS, "scores_i2t": (FILLED + 100).astype("float16"), "unscored": 1e-8},
        r"unscored is 1e-08, but no pair",
    ),
    "unknown entry": ({**IDS, "scores_i2t": I2T, "valid_i2t": HALF}, r"holds valid_i2t, which nothing reads"),
    "filler of text": ({**IDS, "scores_i2t": FILLED, "unscored": "-100"}, r"unscored: is '-100'; save one number"),
    "filler of NaN": ({**IDS, "scores_i2t": FILLED, "unscored": np.nan}, r"~np.isnan\(scores_i2t\)"),
    "NaN": (
        {**IDS, "scores_t2i": change(I2T, np.nan).T},
        r"scores_t2i: value nan in row 2, column 1 \(caption 23, image 12\).*mask scored_t2i.*unscored=-100",
    ),
    "NaN in a scored pair": ({**IDS, "scores": change(I2T, np.nan), "scored": change(HALF, True)}, r"mask scored "),
    "NaN beside a filler": ({**IDS, "scores": change(FILLED, np.nan), "unscored": -100}, r"value nan in row 1"),
    "integers as scores": ({**IDS, "scores_i2t": HALF.astype(int)}, r"Save scores_i2t.astype\('float32'\)"),
    "square t2i": (
        {**SQUARE, "scores_t2i": I2T[:, :2]},
        r"Save axes_t2i=\['captions', 'images'\] if its rows are capt",
    ),
    "square i2t": (
        {**SQUARE, "scores_i2t": I2T[:, :2]},
        r"Save axes_i2t=\['images', 'captions'\] if its rows are images",
    ),
    "unknown axes": ({**SQUARE, "scores_i2t": I2T[:, :2], "axes_i2t": "images x captions"}, r"save \['images', 'capti"),
    "axes against the shape": ({**IDS, "scores_t2i": T2I, "axes_t2i": ["images", "captions"]}, r"save scores_t2i.T"),
}


@pytest.mark.parametrize(("arrays", "message"), REFUSED.values(), ids=REFUSED)
def test_unclear_scores_are_refused(arrays, message, tmp_path):
    with pytest.raises(MalformedRun, match=message):
        load(tmp_path, **arrays)


def test_no_matrix_is_refused():
    with pytest.raises(MalformedRun, match="neither scores_i2t nor scores_t2i"):
        make_direction_scores(**IDS)
    with pytest.raises(MalformedRun, match="unscored is True; give one number"):
        make_direction_scores(I2T, unscored=True, **IDS)
