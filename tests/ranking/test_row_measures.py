"""Top items and plausible hits: ties of any extent, rankings cut short, options out of range."""

import numpy as np
import pytest
from row_measures import plausible_hits

from cxc_eccv import kernels
from cxc_eccv.errors import MissingIds, RunTooShallow
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.readers.columns import BestOfColumns
from cxc_eccv.ranking.readers.rows import PlausibleRows, TopRows, score_at_depth
from cxc_eccv.runs import EmbeddingsRun, RankingsRun
from cxc_eccv.types import Embeddings, Judgments

LOOKS = ((0, None), (1, None), (2, None), (0, 50))


def constant_run(n_images, n_captions):
    sides = ((n_images, 1_000), (n_captions, 50_000))
    return EmbeddingsRun(*(Embeddings(np.arange(first, first + n), np.full((n, 33), 0.1)) for n, first in sides))


def test_a_constant_model_has_its_judged_items_last():
    """Top items: judged ones without gain first, then unjudged ones by id; never one with a gain."""
    run = constant_run(40, 700)
    captions = run.captions.ids
    gains = np.tile([1.0, 0.0], 40)
    qrels = Judgments(
        run.images.ids, captions, np.arange(0, 81, 2), np.tile([0, 650], 40), np.zeros(40, int), gains=gains
    )
    for block_size in (None, 1, 17):
        top = ranked(run, Options(block_size=block_size)).find_top(qrels, "i2t", 5)
        assert top.ids.tolist() == [[captions[650], *captions[1:5].tolist()]] * 40
        assert top.cut.tolist() == [695] * 40


@pytest.mark.parametrize("others", ["i2t", "t2i"])
def test_shallow_and_deep_readers_share_one_product(others, monkeypatch):
    """Columns of the shared product are never whole: what looks deep needs them as rows."""
    random = np.random.default_rng(0)
    run = EmbeddingsRun(
        *(Embeddings(np.arange(200) + 500 * side, random.standard_normal((200, 9))) for side in range(2))
    )
    ids = {"i2t": (run.images.ids, run.captions.ids), "t2i": (run.captions.ids, run.images.ids)}
    judged = {name: Judgments.from_pairs(*both, *both) for name, both in ids.items()}
    requests = {name: (name, one) for name, one in judged.items()}
    deep = {name: [TopRows(one, 170)] for name, one in judged.items()}
    alone = ranked(run).find_top(judged[others], others, 3)
    with monkeypatch.context() as patch:
        patch.setattr("cxc_eccv.ranking.by_vectors.count_both", None)
        ranked(run).rank_all(requests, deep)
    monkeypatch.setattr("cxc_eccv.ranking.by_vectors.count_by_row", None)
    shallow = TopRows(judged[others], 3)
    ranked(run).rank_all(requests, deep | {others: [shallow]})
    assert shallow.result.ids.tolist() == alone.ids.tolist()
    assert shallow.result.cut.tolist() == alone.cut.tolist()


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("case", ["kept", "constant", "too many", "guessed too high"])
def test_shared_product_finds_the_same_plausible_matches(case, monkeypatch):
    """Ties and all; where what is kept of the columns does not do, their direction is read again as rows."""
    random = np.random.default_rng(0)
    images, captions = (random.integers(-3, 4, (n, 6)).astype(np.float32) + 0.25 for n in (700, 900))
    if case == "constant":
        images[:], captions[:] = 1, 1
    if case == "too many":
        monkeypatch.setattr("cxc_eccv.ranking.readers.columns.MOST_KEPT", 1000)
    if case == "guessed too high":
        monkeypatch.setattr("cxc_eccv.ranking.readers.columns.BRACKET_SLACK", -5)
    run = EmbeddingsRun(Embeddings(np.arange(700), images), Embeddings(np.arange(5000, 5900), captions))
    sets = random.random((700, 5)) < 0.4
    of_captions = random.integers(0, 700, 800)  # of 900, and 20 images take no part
    sides = (run.images.ids[20:], sets[20:]), (run.captions.ids[50:850], sets[of_captions])
    matches = {"i2t": CategoryMatches.of(*sides[0], *sides[1]), "t2i": CategoryMatches.of(*sides[1], *sides[0])}
    judged = Judgments.from_pairs(run.images.ids, run.captions.ids, run.images.ids, run.captions.ids[:700])
    readers = {name: [PlausibleRows(own, LOOKS)] for name, own in matches.items()}
    ranked(run, Options(similarity="dot", block_size=111)).rank_all({"a": ("i2t", judged)}, readers)
    for name, own in matches.items():
        alone = plausible_hits(run, own, name, LOOKS, similarity="dot")
        np.testing.assert_array_equal(readers[name][0].result.hits, alone.hits)
        np.testing.assert_array_equal(readers[name][0].result.ties, alone.ties)
        assert np.any(alone.ties > 0)


def test_constant_scores_make_column_readers_use_rows():
    run = constant_run(700, 400)
    ids = {"i2t": (run.images.ids, run.captions.ids), "t2i": (run.captions.ids, run.images.ids)}
    judged = {name: Judgments.from_pairs(*both, both[0], both[1][np.arange(both[0].size) % both[1].size])
              for name, both in ids.items()}  # fmt: skip
    readers = {name: [TopRows(one, 3)] for name, one in judged.items()}
    ranks = ranked(run).rank_all({name: (name, one) for name, one in judged.items()}, readers)
    for name, one in judged.items():
        assert readers[name][0].result.ids.tolist() == ranked(run).find_top(one, name, 3).ids.tolist()
        assert (readers[name][0].result.cut == one.gallery_ids.size - 3).all()
        assert (ranks[name].ranks == one.gallery_ids.size).all()


def test_short_rankings_are_used_to_their_depth():
    """A metric that looks deeper is refused."""
    run = RankingsRun.from_dicts(i2t={1: [30, 10, 20], 2: [20, 10, 30]})
    qrels = Judgments.from_pairs([1, 2], [10, 20, 30, 40], [1, 2], [10, 20])
    assert ranked(run).find_top(qrels, "i2t", 3).ids.tolist() == [[30, 10, 20], [20, 10, 30]]
    with pytest.raises(RunTooShallow, match="query 1 needs 4 ranked items for its top 4, but its ranking holds 3"):
        ranked(run).find_top(qrels, "i2t", 4)
    sets = np.array([[True], [True], [True], [True], [False]])
    matches = CategoryMatches.of(np.array([1]), sets[:1], np.array([10, 20, 30, 40, 50]), np.roll(sets, 1, axis=0))
    assert plausible_hits(run, matches, "i2t", ((0, 3),)).hits.tolist() == [[2]]
    with pytest.raises(RunTooShallow, match="query 1 needs 4 ranked items for its plausible matches"):
        plausible_hits(run, matches, "i2t", ((0, None),))
    with pytest.raises(MissingIds, match="lacks the rankings of 1 of 3 queries"):
        ranked(run).find_top(Judgments.from_pairs([1, 2, 3], [10], [1, 2, 3], [10] * 3), "i2t", 1)


def test_foreign_items_and_the_query_are_left_out():
    run = RankingsRun.from_dicts(t2t={10: [10, 99, 30, 20]})
    qrels = Judgments.from_pairs([10], [10, 20, 30], [10], [20], without_self=True)
    assert ranked(run).find_top(qrels, "t2t", 5).ids.tolist() == [[30, 20]]


def test_an_error_in_a_reader_ends_the_pass(monkeypatch):
    run = constant_run(400, 60)
    qrels = Judgments.from_pairs(run.images.ids, run.captions.ids, run.images.ids, np.resize(run.captions.ids, 400))

    def fail(*_):
        raise ArithmeticError("on purpose")

    monkeypatch.setattr(TopRows, "read", fail)
    with pytest.raises(ArithmeticError, match="on purpose"):
        ranked(run, Options(block_size=1)).find_top(qrels, "i2t", 3)


@pytest.mark.skipif(not kernels.COMPILED, reason="no compiler was at hand when the package was installed")
def test_gallery_without_a_sampled_row_is_kept():
    best = BestOfColumns(np.array([2, 0]), np.zeros((3, 2), np.float32), np.zeros(0, np.int64), 3)
    best.read(np.arange(8, dtype=np.float32).reshape(4, 2), np.array([5, -1, 6, 7]))
    assert best.complete
    assert best.sizes(np.array([0, 1])).tolist() == [3, 0]
    assert [table.tolist() for table in best.lists(np.array([0]))] == [[[0, 4, 6]], [[5, 6, 7]]]


def rows_of(seed, n_columns, levels):
    """Scores with many ties, and some columns that hold no item."""
    random = np.random.default_rng(seed)
    scores = random.integers(levels, size=(7, n_columns)).astype(np.float32)
    scores[:, random.random(n_columns) < 0.1] = -np.inf
    return scores


@pytest.mark.parametrize("levels", [1, 5, 1_000_000])
@pytest.mark.parametrize("depth", [1, 3, 10, 50, 240])
def test_one_depth_equals_a_sort(levels, depth):
    scores = rows_of(depth, 1_000, levels)
    before = scores.copy()
    np.testing.assert_array_equal(score_at_depth(scores, depth), -np.sort(-scores, axis=1)[:, depth - 1])
    np.testing.assert_array_equal(scores, before)
