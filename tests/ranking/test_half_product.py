"""Half a product for text-text and image-image: equal to a whole one and to a plain sort, ties included."""

import numpy as np
import pytest
from plain_ranks import by_query, by_sorting

from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.by_vectors import HalfProduct
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, Judgments

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("counted_by")]

COUNT = 203


@pytest.fixture
def only_half(monkeypatch):
    """No whole product may help out."""
    monkeypatch.setattr("cxc_eccv.ranking.by_vectors.count_by_row", None)


def fives(vectors, **options):
    """Text-text judgments: five items belong together, and every seventh has a far positive as well."""
    count = len(vectors)
    rows, items = np.nonzero(np.arange(count)[:, None] // 5 == np.arange(count) // 5)
    far = np.arange(0, count, 7)
    rows, items = np.unique([np.append(rows, far), np.append(items, (far * 31 + 11) % count)], axis=1)
    kept = rows != items
    ids = np.arange(count) * 3 + 50
    qrels = Judgments.from_pairs(ids, ids, ids[rows[kept]], ids[items[kept]], without_self=True, **options)
    return EmbeddingsRun(None, Embeddings(ids, vectors)), qrels


@pytest.mark.parametrize("block_size", [None, 1, 7, 64, 100, COUNT, 1000])
def test_it_ranks_as_a_plain_sort_says(only_half, block_size):
    run, judgments = fives(np.random.default_rng(0).integers(-3, 4, (COUNT, 40)).astype(np.float32))
    ranks = ranked(run, Options(similarity="dot", block_size=block_size)).rank(judgments, "t2t")
    assert by_query(ranks) == by_sorting(run, judgments, "t2t")
    assert sum(ranks.ties) > 100


@pytest.mark.parametrize("block_size", [None, 1, 7, 64, 100])
def test_folds_stay_apart(only_half, block_size):
    vectors = np.random.default_rng(1).integers(-3, 4, (COUNT, 40)).astype(np.float32)
    run, judgments = fives(vectors, query_folds=np.arange(COUNT) % 2, gallery_folds=np.arange(COUNT) % 2)
    ranks = ranked(run, Options(similarity="dot", block_size=block_size)).rank(judgments, "t2t")
    assert by_query(ranks) == by_sorting(run, judgments, "t2t")


@pytest.mark.parametrize("width", [64, 513])
@pytest.mark.parametrize("block_size", [None, 1, 50, 97])
def test_twins_tie_however_far_apart(only_half, width, block_size):
    """A product rounds equal vectors differently in other places and blocks; the ranks must not show it."""
    random = np.random.default_rng(width)
    vectors = random.standard_normal((COUNT, width)).astype(np.float32)
    twins = np.array([3, 8, 96, 110, 201])
    others = np.array([0, 97, 202])
    vectors[twins], vectors[others] = vectors[3], vectors[0]
    ids = np.arange(COUNT)
    queries = np.setdiff1d(ids, twins)
    found = []
    for twin in twins:
        qrels = Judgments.from_pairs(queries, ids, queries, np.full(queries.size, twin), without_self=True)
        ranks = ranked(EmbeddingsRun(None, Embeddings(ids, vectors)), Options(block_size=block_size)).rank(qrels, "t2t")
        assert ranks.ties.tolist() == [twins.size - 1] * queries.size
        found.append(ranks.ranks.tolist())
    assert found == [found[0]] * twins.size
    of_others = [rank for query, rank in zip(queries, found[0], strict=True) if query in others]
    assert len(set(of_others)) == 1


def test_twin_queries_rank_each_other_first(only_half):
    vectors = np.random.default_rng(2).standard_normal((COUNT, 33)).astype(np.float32)
    vectors[200] = vectors[5]
    ids = np.arange(COUNT)
    qrels = Judgments.from_pairs(ids, ids, ids, np.where(ids == 5, 200, 5), without_self=True)
    ranks = ranked(EmbeddingsRun(None, Embeddings(ids, vectors)), Options(block_size=60)).rank(qrels, "t2t")
    assert (ranks.ranks[5], ranks.ranks[200]) == (1, 1)
    assert ranks.ties[5] == 0
    assert ranks.ties[10] == 1


def test_item_that_is_no_query_is_ranked(only_half):
    run, judgments = fives(np.random.default_rng(3).integers(-3, 4, (COUNT, 24)).astype(np.float32))
    asking = judgments.query_ids[judgments.query_ids % 4 > 0]
    chosen = np.isin(judgments.query_ids[judgments.rows], asking)
    some = Judgments.from_pairs(
        asking,
        judgments.gallery_ids,
        judgments.query_ids[judgments.rows][chosen],
        judgments.gallery_ids[judgments.indices][chosen],
        without_self=True,
    )
    ranks = ranked(run, Options(similarity="dot", block_size=50)).rank(some, "t2t")
    assert by_query(ranks) == by_sorting(run, some, "t2t")


@pytest.mark.parametrize("count", [40, 2_500])
def test_constant_model_gets_the_last_ranks(count):
    run, judgments = fives(np.full((count, 9), 0.1, dtype=np.float32))
    ranks = ranked(run).rank(judgments, "t2t")
    assert ranks.best.min() >= count - 1 - judgments.n_positives.max()


def test_very_many_twins_get_a_whole_product(monkeypatch):
    vectors = np.tile(np.random.default_rng(4).integers(-2, 3, (60, 8)), (3, 1)).astype(np.float32)
    run, judgments = fives(vectors)
    monkeypatch.setattr("cxc_eccv.ranking.by_vectors.BLOCK_BYTES", 1_000)
    ranks = ranked(run, Options(similarity="dot")).rank(judgments, "t2t")
    assert by_query(ranks) == by_sorting(run, judgments, "t2t")


def test_blocks_are_symmetric_among_twins():
    vectors = np.random.default_rng(5).standard_normal((64, 70)).astype(np.float32)
    vectors[[1, 20, 63]], vectors[[9, 40]] = vectors[1], vectors[9]
    blocks = HalfProduct(vectors, np.arange(0), without_self=False, shared_bytes=10**6)
    top = blocks.fill(0, 10, blocks.room(64)).copy()
    bottom = blocks.fill(40, 64, blocks.room(64))
    assert top[1, 40] == top[9, 20] == top[1, 9] == top[9, 63] == bottom[0, 63 - 40]
