"""A gallery counted in tiles and shards ranks as one held in memory."""

import dataclasses
import itertools

import numpy as np
import pytest
from plain_ranks import assert_equal_ranks

from cxc_eccv.errors import DataError, MalformedRun, MissingIds, UnknownName
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.large_gallery import LargeGallery
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, Judgments

pytestmark = pytest.mark.usefixtures("counted_by")

QUERIES = 70
ITEMS = 5_000


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr("cxc_eccv.ranking.large_gallery.TILE_WIDTH", 1_000)
    monkeypatch.setattr("cxc_eccv.ranking.large_gallery.TILE_ROWS_AT_ONCE", 33)


def judged(seed=0, width=12):
    """Small whole numbers: exact in float16, full of ties and of twins."""
    random = np.random.default_rng(seed)
    queries = Embeddings(np.arange(QUERIES) + 10**6, random.integers(-3, 4, (QUERIES, width)).astype(np.float32))
    ids = random.permutation(ITEMS) * 3
    vectors = random.integers(-3, 4, (ITEMS, width)).astype(np.float16)
    vectors[random.choice(ITEMS, 300)] = vectors[17]
    rows = np.repeat(np.arange(QUERIES), random.integers(1, 6, QUERIES))
    pairs = np.unique([rows, random.choice(ITEMS, rows.size)], axis=1)
    qrels = Judgments.from_pairs(queries.ids, ids, queries.ids[pairs[0]], ids[pairs[1]])
    return queries, ids, vectors, qrels


def in_shards(queries, ids, vectors, qrels, edges, similarity="dot"):
    wanted = np.isin(ids, qrels.gallery_ids[qrels.indices])
    gallery = LargeGallery(queries, qrels, Embeddings(ids[wanted], vectors[wanted]), similarity=similarity)
    shards = [gallery.count(ids[a:b], vectors[a:b]) for a, b in itertools.pairwise(edges)]
    return gallery.ranks(sum(shards[1:], start=shards[0]))


@pytest.mark.parametrize("edges", [(0, ITEMS), (0, 1, 2_500, ITEMS), (0, 1_000, 1_001, 4_999, ITEMS)])
def test_memory_mapped_gallery_ranks_like_one_in_memory(edges, tmp_path):
    queries, ids, vectors, qrels = judged()
    np.save(tmp_path / "gallery.npy", vectors)
    mapped = np.load(tmp_path / "gallery.npy", mmap_mode="r")
    expected = ranked(EmbeddingsRun(queries, Embeddings(ids, vectors)), Options(similarity="dot")).rank(qrels, "i2t")
    assert_equal_ranks(in_shards(queries, ids, mapped, qrels, edges), expected)
    assert expected.ties.sum() > 1_000


@pytest.mark.parametrize("edges", [(0, ITEMS), (0, 777, ITEMS)])
def test_identical_items_tie_in_every_tile_and_shard(edges):
    random = np.random.default_rng(2)
    queries = Embeddings(np.arange(QUERIES), random.standard_normal((QUERIES, 129)))
    vectors = random.standard_normal((ITEMS, 129)).astype(np.float32)
    twins = np.array([3, 776, 777, 1_001, 2_345, 4_999])
    vectors[twins] = vectors[3]
    ids = np.arange(ITEMS)
    found = []
    for twin in twins:
        qrels = Judgments.from_pairs(queries.ids, ids, queries.ids, np.full(QUERIES, twin))
        ranks = in_shards(queries, ids, vectors, qrels, edges, "cosine")
        assert ranks.ties.tolist() == [twins.size - 1] * QUERIES
        found.append(ranks.ranks.tolist())
    assert found == [found[0]] * twins.size


def folded(qrels, seed=0):
    """The same positives with queries and items in four folds; some positives are in other folds than their query."""
    random = np.random.default_rng(seed)
    folds = random.integers(0, 4, qrels.query_ids.size), random.integers(0, 4, qrels.gallery_ids.size) * 10
    return dataclasses.replace(qrels, query_folds=folds[0] * 10, gallery_folds=folds[1])


@pytest.mark.parametrize("edges", [(0, ITEMS), (0, 1, 2_500, ITEMS), (0, 1_000, 1_001, 4_999, ITEMS)])
def test_items_of_another_fold_do_not_compete(edges):
    queries, ids, vectors, qrels = judged(seed=4)
    qrels = folded(qrels)
    expected = ranked(EmbeddingsRun(queries, Embeddings(ids, vectors)), Options(similarity="dot")).rank(qrels, "i2t")
    found = in_shards(queries, ids, vectors, qrels, edges)
    assert_equal_ranks(found, expected)
    assert expected.ties.sum() > 100
    assert found.n_gallery.max() < 0.3 * ITEMS
    assert 0 < found.ranks.size < qrels.indices.size


def test_query_is_left_out_within_folds():
    _, ids, vectors, _ = judged(seed=5)
    asking = np.arange(0, ITEMS, 40)
    pairs = np.tile(ids[asking], 2), np.append(ids[asking + 1], ids[(asking + 40) % ITEMS])
    folds = np.arange(ITEMS) // 2 % 2
    qrels = Judgments.from_pairs(
        ids[asking], ids, *pairs, without_self=True, query_folds=folds[asking], gallery_folds=folds
    )
    expected = ranked(EmbeddingsRun(None, Embeddings(ids, vectors)), Options(similarity="dot")).rank(qrels, "t2t")
    own = Embeddings(ids[asking], vectors[asking])
    assert_equal_ranks(in_shards(own, ids, vectors, qrels, (0, 2_000, ITEMS)), expected)
    assert set(expected.n_gallery.tolist()) == {ITEMS // 2 - 1}


def test_shards_that_overlap_or_leave_gaps_are_refused():
    queries, ids, vectors, qrels = judged()
    gallery = LargeGallery(queries, qrels, Embeddings(ids, vectors))
    half = gallery.count(ids[:2_500], vectors[:2_500])
    with pytest.raises(DataError, match="have 500 items in common"):
        half + gallery.count(ids[2_000:3_000], vectors[2_000:3_000])
    with pytest.raises(MissingIds, match="2500 of 5000 gallery items are in no shard"):
        gallery.ranks(half)


def test_bad_shards_are_refused():
    queries, ids, vectors, qrels = judged()
    gallery = LargeGallery(queries, qrels, Embeddings(ids, vectors))
    with pytest.raises(DataError, match="1 items outside the gallery, the first: 1"):
        gallery.count(np.append(ids[:2], 1), vectors[:3])
    with pytest.raises(DataError, match="repeats an id"):
        gallery.count(ids[[0, 0]], vectors[:2])
    with pytest.raises(MalformedRun, match=r"need \(2, 12\)"):
        gallery.count(ids[:2], vectors[:2, :5])
    broken = vectors.copy()
    broken[1_234, 3] = np.nan
    with pytest.raises(MalformedRun, match=rf"\(id {ids[1_234]}\)"):
        gallery.count(ids, broken)


def test_missing_vectors_are_refused():
    queries, ids, vectors, qrels = judged()
    every = Embeddings(ids, vectors)
    with pytest.raises(MissingIds, match="positives have no vector"):
        LargeGallery(queries, qrels, Embeddings(ids[:5], vectors[:5]))
    with pytest.raises(MissingIds, match="1 of 70 queries have no vector"):
        LargeGallery(Embeddings(queries.ids[1:], queries.vectors[1:]), qrels, every)


def test_an_unknown_similarity_is_refused():
    queries, ids, vectors, qrels = judged()
    with pytest.raises(UnknownName, match="unknown similarity 'cosin'; did you mean 'cosine'"):
        LargeGallery(queries, qrels, Embeddings(ids, vectors), similarity="cosin")


@pytest.mark.parametrize(("scale", "words"), [(1e20, "reach"), (1e-20, "fall to")])
def test_dot_products_outside_float32_are_refused(scale, words):
    queries, ids, vectors, qrels = judged()
    near = Embeddings(queries.ids, np.sign(queries.vectors) * scale)
    with np.errstate(over="ignore"):
        gallery = LargeGallery(near, qrels, Embeddings(ids, vectors))
        counted = LargeGallery(near, qrels, Embeddings(ids, vectors), similarity="dot")
    items = (vectors + 5).astype(np.float32) * np.float32(scale)
    gallery.count(ids, items)
    with pytest.raises(MalformedRun, match=rf"{words} .* \(query \d+ with item \d+\)"):
        counted.count(ids, items)


@pytest.mark.parametrize(("scale", "words"), [(1e25, "reach"), (1e-25, "fall to")])
def test_dot_products_with_positives_are_checked_first(scale, words):
    queries, ids, vectors, qrels = judged()
    queries, positives = (Embeddings(e.ids, (e.vectors + 5) * scale) for e in (queries, Embeddings(ids, vectors)))
    with pytest.raises(MalformedRun, match=rf"{words} .* \(query \d+ with item \d+\)"):
        LargeGallery(queries, qrels, positives, similarity="dot")
    LargeGallery(queries, qrels, positives)


@pytest.mark.parametrize("side", ["queries", "positives", "gallery"])
def test_a_zero_vector_has_no_cosine(side):
    queries, ids, vectors, qrels = judged()
    others = np.where(vectors.any(axis=1, keepdims=True), vectors, 1).astype(np.float64)
    asked = np.where(queries.vectors.any(axis=1, keepdims=True), queries.vectors, 1)
    item = int(qrels.gallery_ids[qrels.indices[0]] if side != "gallery" else np.setdiff1d(ids, ids[qrels.indices])[0])
    if side == "queries":
        asked[3] = 0
    positives = Embeddings(ids, np.where((ids == item)[:, None] & (side == "positives"), 0, others))
    parts = Embeddings(queries.ids, asked), qrels, positives
    LargeGallery(*parts, similarity="dot").count(ids, others)
    name = {"queries": queries.ids[3], "positives": item, "gallery": item}[side]
    others[ids == item] = 0
    with pytest.raises(MalformedRun, match=rf"have a zero vector, .* the first: {name}\."):
        LargeGallery(*parts, similarity="cosine").count(ids, others)
