"""Top items and plausible hits equal a plain sort with the tie rule, whatever the blocks, the run and the direction."""

import numpy as np
import oracles
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from plain_ranks import products, ranked_lists
from row_measures import plausible_hits

from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.readers.rows import PlausibleRows, TopRows
from cxc_eccv.runs import RankingsRun, ScoresRun

LOOKS = ((0, None), (1, None), (2, None), (0, 2))


def scores_of(run, judgments, direction):
    """Query id to item id to the exact inner product, over the query's gallery."""
    scores = products(run, direction)
    own = direction[0] == direction[-1]
    return {
        query: {item: scores[query][item] for item in judgments.gallery_ids.tolist() if not (own and item == query)}
        for query in judgments.query_ids.tolist()
    }


def expected_top(run, judgments, direction, k):
    every = scores_of(run, judgments, direction).values()
    gains = oracles.gains_of(judgments)
    return [oracles.graded_ranking(scores, own)[:k] for scores, own in zip(every, gains, strict=True)]


def expected_precision(run, matches, direction, look):
    values = []
    for row, scores in enumerate(scores_of(run, matches, direction).values()):
        distances = matches.distances[matches.query_classes[row], matches.gallery_classes].tolist()
        by_item = dict(zip(matches.gallery_ids.tolist(), distances, strict=True))
        values.append(oracles.plausible_precision(scores, by_item, *look))
    return values


def as_scores(run):
    return ScoresRun(run.images.ids, run.captions.ids, run.images.vectors.astype(float) @ run.captions.vectors.T)


def as_rankings(run):
    """Whole rankings with their scores, so that ties are seen."""
    return RankingsRun({direction: ranked_lists(run, direction, scored=True) for direction in ("i2t", "t2i")})


@pytest.mark.parametrize("direction", ["i2t", "t2i", "t2t", "i2i"])
@given(data=st.data(), block_size=st.integers(1, 13), k=st.integers(1, 15))
def test_top_items_equal_a_plain_sort(direction, data, block_size, k):
    run, _ = data.draw(strategies.judged_runs(direction))
    judgments = data.draw(strategies.graded_judgments_of(run, direction))
    top = ranked(run, Options(similarity="dot", block_size=block_size)).find_top(judgments, direction, k)
    assert top.ids.tolist() == [row[: top.depth] for row in expected_top(run, judgments, direction, k)]
    largest = judgments.gallery_ids.size - judgments.without_self
    assert min(k, largest) <= top.depth <= min(k, judgments.gallery_ids.size)
    scores = scores_of(run, judgments, direction)
    for query, ids, found, cut in zip(top.query_ids.tolist(), top.ids.tolist(), top.scores, top.cut, strict=True):
        assert found.tolist() == [scores[query][item] for item in ids]
        beyond = [score for item, score in scores[query].items() if item not in ids]
        assert cut == beyond.count(found[-1])


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@given(data=st.data(), block_size=st.integers(1, 13))
def test_plausible_hits_equal_a_plain_sort(direction, data, block_size):
    run, _ = data.draw(strategies.judged_runs(direction))
    matches = data.draw(strategies.category_matches_of(run, direction))
    hits = plausible_hits(run, matches, direction, LOOKS, similarity="dot", block_size=block_size)
    for look in LOOKS:
        np.testing.assert_allclose(hits.precision(*look), expected_precision(run, matches, direction, look), rtol=1e-15)


@pytest.mark.parametrize("form", [as_scores, as_rankings])
@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@given(data=st.data(), few=st.booleans())
def test_other_forms_of_a_run_measure_the_same(form, direction, data, few):
    """Whether plausible matches are counted on whole rows or, as in a large gallery, among the best items alone."""
    with pytest.MonkeyPatch.context() as patch:
        if few:
            patch.setattr("cxc_eccv.ranking.readers.rows.FEW_ITEMS", 0)
        check_other_form(form, direction, data)


def check_other_form(form, direction, data):
    run, _ = data.draw(strategies.judged_runs(direction))
    judgments = data.draw(strategies.graded_judgments_of(run, direction))
    matches = data.draw(strategies.category_matches_of(run, direction))
    other = form(run)
    assert ranked(other).find_top(judgments, direction, 5).ids.tolist() == [
        row[:5] for row in expected_top(run, judgments, direction, 5)
    ]
    hits = plausible_hits(other, matches, direction, LOOKS)
    for look in LOOKS:
        np.testing.assert_allclose(hits.precision(*look), expected_precision(run, matches, direction, look), rtol=1e-15)


@given(data=st.data(), block_size=st.integers(1, 13), by_columns=st.booleans())
def test_readers_share_passes_with_the_ranks_of_positives(data, block_size, by_columns):
    """Whatever else is read, in one direction or both, as rows or columns, it stays what it is alone."""
    with pytest.MonkeyPatch.context() as patch:
        if by_columns:  # as in a gallery of any size
            patch.setattr("cxc_eccv.ranking.readers.columns.KEPT_SHARE", 0)
            patch.setattr("cxc_eccv.ranking.readers.rows.FEW_ITEMS", 0)
        check_readers(data, block_size)


def check_readers(data, block_size):
    run, i2t = data.draw(strategies.judged_runs("i2t"))
    requests = {"i2t": ("i2t", i2t), "t2i": ("t2i", data.draw(strategies.judgments_of(run, "t2i")))}
    kept = {name: requests[name] for name in data.draw(st.sets(st.sampled_from(["i2t", "t2i"])))}
    top = {}
    hits = {}
    readers = {}
    for direction in data.draw(st.sets(st.sampled_from(["i2t", "t2i"]), min_size=1)):
        top[direction] = data.draw(strategies.graded_judgments_of(run, direction))
        hits[direction] = data.draw(strategies.category_matches_of(run, direction))
        readers[direction] = [TopRows(top[direction], 4), PlausibleRows(hits[direction], LOOKS)]
    ranks = ranked(run, Options(similarity="dot", block_size=block_size)).rank_all(kept, readers)
    for name, (direction, judgments) in kept.items():
        alone = ranked(run, Options(similarity="dot")).rank(judgments, direction)
        np.testing.assert_array_equal(ranks[name].ranks, alone.ranks)
        np.testing.assert_array_equal(ranks[name].ties, alone.ties)
    for direction, (best, plausible) in readers.items():
        found = expected_top(run, top[direction], direction, 4)
        assert best.result.ids.tolist() == [row[:4] for row in found]
        for look in LOOKS:
            expected = expected_precision(run, hits[direction], direction, look)
            np.testing.assert_allclose(plausible.result.precision(*look), expected, rtol=1e-15)
