"""Ranks equal a plain sort with the tie rule, and depend on nothing but the scores."""

import numpy as np
import oracles
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from cxc_eccv.ranking import positive_ranks, positive_ranks_many
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings

DIRECTIONS = ("i2t", "t2i", "t2t", "i2i")


def sides(run, direction):
    return tuple({"i": run.images, "t": run.captions}[letter] for letter in (direction[0], direction[-1]))


def expected(run, judgments, direction):
    """Query id to ranks of its positives and number of ties, by a plain sort."""
    queries, gallery = (dict(zip(side.ids.tolist(), side.vectors, strict=True)) for side in sides(run, direction))
    found = {}
    for query, positives in oracles.positives_of(judgments).items():
        scores = {
            item: oracles.score_of(queries[query], gallery[item], "dot")
            for item in oracles.gallery_of(judgments, query)
        }
        ranked = oracles.ranking(scores, positives)
        found[query] = oracles.positive_ranks(ranked, positives), oracles.ties(scores, positives), len(scores)
    return found


def actual(ranks):
    return {
        int(query): (ranks.ranks[start:stop].tolist(), int(tied), int(size))
        for query, start, stop, tied, size in zip(
            ranks.query_ids, ranks.indptr[:-1], ranks.indptr[1:], ranks.ties, ranks.n_gallery, strict=True
        )
    }


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(data=st.data(), block_size=st.integers(1, 13))
def test_ranks_equal_a_plain_sort(direction, data, block_size):
    run, judgments = data.draw(strategies.judged_runs(direction))
    ranks = positive_ranks(run, judgments, direction, similarity="dot", block_size=block_size)
    assert actual(ranks) == expected(run, judgments, direction)
    np.testing.assert_array_equal(ranks.n_positives, judgments.n_positives)


@given(data=st.data(), block_size=st.integers(1, 13))
def test_one_product_for_both_directions_equals_two(data, block_size):
    run, i2t = data.draw(strategies.judged_runs("i2t"))
    more = data.draw(strategies.judgments_of(run, "i2t")), data.draw(strategies.judgments_of(run, "t2i"))
    requests = {
        "a": ("i2t", i2t),
        "b": ("t2i", more[1]),
        "c": ("i2t", more[0]),
        "d": ("t2t", data.draw(strategies.judgments_of(run, "t2t"))),
    }
    together = positive_ranks_many(run, requests, similarity="dot", block_size=block_size)
    for name, (direction, judgments) in requests.items():
        alone = positive_ranks(run, judgments, direction, similarity="dot")
        assert actual(together[name]) == actual(alone)


@given(data=st.data())
def test_equal_scores_rank_every_positive_last(data):
    run, judgments = data.draw(strategies.judged_runs("i2t"))
    constant = EmbeddingsRun(
        *(Embeddings(side.ids, np.ones((side.ids.size, 5))) for side in (run.images, run.captions))
    )
    ranks = positive_ranks(constant, judgments, "i2t")
    found = np.diff(ranks.indptr)
    for query, count in enumerate(found):
        own = ranks.ranks[ranks.indptr[query] : ranks.indptr[query + 1]]
        size = ranks.n_gallery[query]
        assert own.tolist() == list(range(size - count + 1, size + 1))
        assert ranks.ties[query] == (size - count if count else 0)
