"""Scores and rankings give the ranks that the embeddings they were made from give."""

import sys

import numpy as np
import oracles
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from plain_ranks import assert_equal_ranks, products, ranked_lists

from cxc_eccv.errors import MissingIds, RunTooShallow
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.readers.rows import TopRows
from cxc_eccv.runs import RankingsRun, ScoresRun
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import Judgments, find_positions

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@given(data=st.data())
def test_scores_rank_as_the_vectors_they_come_from(direction, dtype, data):
    run, judgments = data.draw(strategies.judged_runs(direction))
    matrix = np.array([list(row.values()) for row in products(run, "i2t").values()], dtype=dtype)
    scores = ScoresRun(run.images.ids, run.captions.ids, matrix)
    ranks = ranked(scores).rank_all({"task": (direction, judgments)})["task"]
    assert_equal_ranks(ranks, ranked(run, Options(similarity="dot")).rank(judgments, direction))


@pytest.mark.parametrize("direction", ["i2t", "t2i", "t2t", "i2i"])
@given(data=st.data())
def test_whole_rankings_with_scores_rank_as_the_vectors(direction, data):
    """Ties, folds, smaller galleries and the query itself included."""
    run, judgments = data.draw(strategies.judged_runs(direction))
    whole = RankingsRun({direction: ranked_lists(run, direction, scored=True)})
    found = ranked(whole).rank_all({"task": (direction, judgments)})["task"]
    assert_equal_ranks(found, ranked(run, Options(similarity="dot")).rank(judgments, direction))
    assert found.complete.all()


@pytest.mark.parametrize("direction", ["i2t", "t2t"])
@given(data=st.data(), depth=st.integers(1, 6))
def test_order_is_trusted_without_scores(direction, data, depth):
    run, judgments = data.draw(strategies.judged_runs(direction))
    lists = ranked_lists(run, direction, scored=False, depth=depth)
    found = ranked(RankingsRun({direction: lists})).rank_all({"task": (direction, judgments)})["task"]
    rows = dict(zip(lists.query_ids.tolist(), np.split(lists.items, lists.indptr[1:-1]), strict=True))
    split = np.split(found.ranks, found.indptr[1:-1])
    for at, (query, positives) in enumerate(oracles.positives_of(judgments).items()):
        gallery = oracles.gallery_of(judgments, query)
        kept = [item for item in rows[query].tolist() if item in gallery]
        assert split[at].tolist() == oracles.positive_ranks(kept, positives)
        assert found.depths[at] == len(kept)
        assert found.complete[at] == (len(kept) == len(gallery))
        assert found.n_gallery[at] == len(gallery)
    assert not found.ties.any()


def test_float64_scores_are_not_rounded_into_ties():
    scores = np.array([[1.0, 1.0 + 1e-12, 1.0 - 1e-12, 1e300, -1e300]])
    run = ScoresRun(np.array([1]), np.arange(5), scores)
    qrels = Judgments.from_pairs([1], np.arange(5), [1, 1, 1], [0, 2, 3])
    ranks = ranked(run).rank_all({"task": ("i2t", qrels)})["task"]
    assert ranks.ranks.tolist() == [1, 3, 4]
    assert ranks.ties.tolist() == [0]


def test_blocks_of_queries_do_not_show(monkeypatch):
    random = np.random.default_rng(0)
    gallery = np.arange(50) * 3
    run = RankingsRun.from_dicts(t2i={query: random.permutation(gallery)[: 5 + query % 40] for query in range(70)})
    qrels = Judgments.from_pairs(np.arange(70), gallery, np.arange(70), random.choice(gallery, 70))
    whole = ranked(run).rank_all({"task": ("t2i", qrels)})["task"]
    monkeypatch.setattr("cxc_eccv.ranking.by_lists.LIST_ITEMS_AT_ONCE", 64)
    assert_equal_ranks(ranked(run).rank_all({"task": ("t2i", qrels)})["task"], whole)


def test_requests_of_several_directions_keep_their_order():
    run = ScoresRun(np.array([1, 2]), np.array([7, 8]), np.eye(2))
    i2t = Judgments.from_pairs([1], [7, 8], [1], [7])
    t2i = Judgments.from_pairs([8], [1, 2], [8], [1])
    ranks = ranked(run).rank_all({"a": ("i2t", i2t), "b": ("t2i", t2i), "c": ("i2t", i2t)})
    assert {name: one.ranks.tolist() for name, one in ranks.items()} == {"a": [1], "b": [2], "c": [1]}
    assert list(ranks) == ["a", "b", "c"]


def test_what_the_run_lacks_is_named():
    qrels = Judgments.from_pairs([1, 2], [7, 8], [1, 2], [7, 8])
    with pytest.raises(MissingIds, match=r"lacks 1 of 2 captions.*the first: 8"):
        ranked(ScoresRun(np.array([1, 2]), np.array([7]), np.ones((2, 1)))).rank_all({"task": ("i2t", qrels)})
    with pytest.raises(MissingIds, match="i2t: lacks the rankings of 1 of 2 queries the task needs, the first: 2"):
        ranked(RankingsRun.from_dicts(i2t={1: [7]})).rank_all({"task": ("i2t", qrels)})
    swapped = RankingsRun.from_dicts(i2t={7: [1], 8: [1]}, t2i={1: [7], 2: [7]})
    with pytest.raises(MissingIds, match="queries of t2i: the two directions look swapped"):
        ranked(swapped).rank_all({"task": ("i2t", qrels)})
    with pytest.raises(MissingIds, match="has no t2t rankings, only i2t"):
        ranked(RankingsRun.from_dicts(i2t={1: [7]})).rank_all({"task": ("t2t", qrels)})


def test_rankings_look_up_the_gallery_once(monkeypatch):
    """An id table per query was 95% of the time on top-50 lists of COCO: look-ups must not grow with the queries."""

    def looked_up(n_queries):
        random = np.random.default_rng(0)
        gallery = np.arange(300) * 7
        calls = []
        run = RankingsRun.from_dicts(t2i={query: random.permutation(gallery)[:9] for query in range(n_queries)})
        queries = np.arange(n_queries)
        qrels = Judgments.from_pairs(queries, gallery, queries, random.choice(gallery, n_queries))
        with monkeypatch.context() as patch:
            for module in [one for name, one in sys.modules.items() if name.startswith("cxc_eccv.ranking")]:
                if hasattr(module, "find_positions"):
                    patch.setattr(module, "find_positions", lambda *ids: calls.append(1) or find_positions(*ids))
            ranked(run).rank_all({"task": ("t2i", qrels)}, {"t2i": [TopRows(qrels, 2)]})
        return len(calls)

    assert looked_up(3) == looked_up(400)


def test_finished_reader_reads_no_more_rankings(monkeypatch):
    """Rankings too short for it are known from the first block on; the other blocks are not even made."""
    monkeypatch.setattr("cxc_eccv.ranking.by_lists.LIST_ITEMS_AT_ONCE", 1)
    run = RankingsRun.from_dicts(i2t={query: [7, 8] for query in range(5)})
    qrels = Judgments.from_pairs(np.arange(5), [7, 8, 9], np.arange(5), [7] * 5)

    class EndsAfterTwo(TopRows):
        taken = 0

        def take(self, *best):
            super().take(*best)
            self.taken += 1
            if self.taken == 2:
                self.error = RunTooShallow("too short")

    reader = EndsAfterTwo(qrels, 1)
    ranked(run).rank_all({}, {"i2t": [reader]})
    assert reader.taken == 2
    with pytest.raises(RunTooShallow, match="too short"):
        _ = reader.result


@pytest.mark.parametrize("items_at_once", [1, 2**18])
def test_the_best_of_rankings_with_scores_by_hand(items_at_once, monkeypatch):
    """Top 2 of 5 items: 40 leads, then 10, 20 and 30 tie; 10 is rated and so last of these, 99 is no gallery item."""
    monkeypatch.setattr("cxc_eccv.ranking.by_lists.LIST_ITEMS_AT_ONCE", items_at_once)
    items = [99, 40, 10, 30, 20, 50]
    scores = [9.0, 8.0, 5.0, 5.0, 5.0, 1.0]
    made = RankedLists(np.array([1, 2]), np.array([0, 6, 12]), np.array(items * 2), np.array(scores * 2))
    gallery = np.array([10, 20, 30, 40, 50])
    gains = np.array([1.0, 1.0])
    qrels = Judgments(np.array([1, 2]), gallery, [0, 1, 2], [0, 0], [0, 0], gains=gains)
    reader = TopRows(qrels, 2)
    ranked(RankingsRun({"i2t": made})).rank_all({}, {"i2t": [reader]})
    assert reader.result.ids.tolist() == [[40, 20]] * 2
    assert reader.result.scores.tolist() == [[8, 5]] * 2
    assert reader.result.cut.tolist() == [2, 2]
