"""A gallery counted in tiles and shards ranks as one held in memory."""

import dataclasses
import itertools
import pickle

import numpy as np
import pytest
from plain_ranks import assert_equal_ranks

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, MissingIds, UnknownName
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.large_gallery import LargeGallery, ShardCounts
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, Judgments

pytestmark = pytest.mark.usefixtures("counted_by")

QUERIES = 70
ITEMS = 5_000


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr("cxc_eccv.ranking.large_gallery.TILE_WIDTH", 1_000)
    monkeypatch.setattr("cxc_eccv.ranking.tiles.HostTile.rows_at_once", 33)
    monkeypatch.setattr("cxc_eccv.ranking.tiles.DeviceTile.rows_at_once", 33)
    monkeypatch.setattr("cxc_eccv.ranking.tiles.DEVICE_FLAGS_AT_ONCE", 9_000)


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


def in_shards(queries, ids, vectors, qrels, edges, similarity="dot", device=None):
    wanted = np.isin(ids, qrels.gallery_ids[qrels.indices])
    positives = Embeddings(ids[wanted], vectors[wanted])
    gallery = LargeGallery(queries, qrels, positives, similarity=similarity, device=device)
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
    others = ~np.isin(ids, qrels.gallery_ids[qrels.indices])
    items = (vectors[others] + 5).astype(np.float32) * np.float32(scale)
    gallery.count(ids[others], items)
    with pytest.raises(MalformedRun, match=rf"{words} .* \(query \d+ with item \d+\)"):
        counted.count(ids[others], items)


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
    LargeGallery(*parts, similarity="dot").count(ids, positives.vectors)
    name = {"queries": queries.ids[3], "positives": item, "gallery": item}[side]
    others[ids == item] = 0
    with pytest.raises(MalformedRun, match=rf"have a zero vector, .* the first: {name}\."):
        LargeGallery(*parts, similarity="cosine").count(ids, others)


@pytest.mark.parametrize("edges", [(0, ITEMS), (0, 1_000, 1_001, 4_999, ITEMS)])
@pytest.mark.parametrize("in_folds", [False, True])
def test_torch_counts_like_numpy(edges, in_folds):
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    queries, ids, vectors, qrels = judged(seed=6)
    if in_folds:
        qrels = folded(qrels)
    found = in_shards(queries, ids, vectors, qrels, edges, device="cpu")
    assert_equal_ranks(found, in_shards(queries, ids, vectors, qrels, edges))
    assert found.ties.sum() > 100


def test_torch_ties_identical_items():
    """Items of the bytes of a positive tie with it, though products of other shapes round differently."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    random = np.random.default_rng(2)
    queries = Embeddings(np.arange(QUERIES), random.standard_normal((QUERIES, 129)))
    vectors = random.standard_normal((ITEMS, 129)).astype(np.float32)
    twins = np.array([3, 776, 777, 1_001, 2_345, 4_999])
    vectors[twins] = vectors[3]
    ids = np.arange(ITEMS)
    qrels = Judgments.from_pairs(queries.ids, ids, queries.ids, np.full(QUERIES, 777))
    found = in_shards(queries, ids, vectors, qrels, (0, 777, ITEMS), "cosine", device="cpu")
    assert found.ties.tolist() == [twins.size - 1] * QUERIES
    assert_equal_ranks(found, in_shards(queries, ids, vectors, qrels, (0, ITEMS), "cosine"))


def test_torch_leaves_the_query_out():
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    _, ids, vectors, _ = judged(seed=5)
    asking = np.arange(0, ITEMS, 40)
    qrels = Judgments.from_pairs(ids[asking], ids, ids[asking], ids[asking + 1], without_self=True)
    own = Embeddings(ids[asking], vectors[asking])
    edges = (0, 2_000, ITEMS)
    assert_equal_ranks(
        in_shards(own, ids, vectors, qrels, edges, device="cpu"), in_shards(own, ids, vectors, qrels, edges)
    )


def test_unusable_device_is_refused():
    pytest.importorskip("torch")
    queries, ids, vectors, qrels = judged()
    with pytest.raises(InvalidOption, match="device 'abacus' cannot be used"):
        LargeGallery(queries, qrels, Embeddings(ids, vectors), device="abacus")


def test_positive_with_another_vector_is_refused():
    """Float16 in the shards and float32 among the positives: an item would not tie with itself."""
    random = np.random.default_rng(7)
    queries, ids, _, qrels = judged()
    vectors = random.standard_normal((ITEMS, 12)).astype(np.float32)
    gallery = LargeGallery(queries, qrels, Embeddings(ids, vectors))
    first = next(number for number in ids if number in qrels.gallery_ids[qrels.indices])
    with pytest.raises(MalformedRun, match=rf"other vectors in the shard .*, the first: {first}\. Take the positives"):
        gallery.count(ids, vectors.astype(np.float16))


@pytest.fixture
def saved(tmp_path):
    """A gallery, its shards, and the folder with the counts of each."""
    queries, ids, vectors, qrels = judged(seed=8)
    gallery = LargeGallery(queries, qrels, Embeddings(ids, vectors), similarity="dot")
    shards = [slice(0, 1_234), slice(1_234, 1_234), slice(1_234, ITEMS)]
    for number, shard in enumerate(shards):
        gallery.count(ids[shard], vectors[shard]).save(tmp_path / "counts" / f"{number}.npz")
    return gallery, gallery.ranks(gallery.count(ids, vectors)), tmp_path / "counts"


def test_saved_counts_add_up_to_the_ranks(saved):
    gallery, expected, folder = saved
    copy = pickle.loads(pickle.dumps(gallery))
    counts = [ShardCounts.load(path, copy) for path in sorted(folder.glob("*.npz"))]
    assert_equal_ranks(gallery.ranks(counts[2] + counts[0] + counts[1]), expected)
    with pytest.raises(MissingIds, match=f"{ITEMS - 1_234} of {ITEMS} gallery items are in no shard"):
        gallery.ranks(counts[0] + counts[1])
    with pytest.raises(DataError, match="have 1234 items in common"):
        counts[0] + counts[0]


CHANGES = {
    "a query": lambda queries, positives, qrels: (
        Embeddings(queries.ids, queries.vectors[::-1]),
        positives,
        qrels,
        "dot",
    ),
    "a positive": lambda queries, positives, qrels: (
        queries,
        Embeddings(positives.ids, positives.vectors + (positives.ids == qrels.gallery_ids[qrels.indices[0]])[:, None]),
        qrels,
        "dot",
    ),
    "the similarity": lambda queries, positives, qrels: (queries, positives, qrels, "cosine"),
    "a label": lambda queries, positives, qrels: (
        queries,
        positives,
        dataclasses.replace(qrels, indices=np.append(qrels.indices[:-1], (qrels.indices[-1] + 1) % ITEMS)),
        "dot",
    ),
    "the order of the gallery": lambda queries, positives, qrels: (
        queries,
        positives,
        dataclasses.replace(qrels, gallery_ids=qrels.gallery_ids[::-1], indices=np.sort(ITEMS - 1 - qrels.indices)),
        "dot",
    ),
    "folds": lambda queries, positives, qrels: (queries, positives, folded(qrels), "dot"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_counts_of_another_gallery_are_refused(saved, change):
    _, _, folder = saved
    queries, ids, vectors, qrels = judged(seed=8)
    vectors[~vectors.any(axis=1)] = 1
    queries.vectors[~queries.vectors.any(axis=1)] = 1
    *parts, similarity = CHANGES[change](queries, Embeddings(ids, vectors), qrels)
    other = LargeGallery(parts[0], parts[2], parts[1], similarity=similarity)
    path = folder / "0.npz"
    with pytest.raises(MalformedRun, match=r"0\.npz: was counted for other queries.* Remove the file and count"):
        ShardCounts.load(path, other)
    counts = other.count(ids[:0], vectors[:0])
    with pytest.raises(
        DataError, match=r"a shard was counted for other queries.* Count all shards with one LargeGallery"
    ):
        counts + ShardCounts.load(path, saved[0])
    with pytest.raises(DataError, match="a shard was counted for other queries"):
        saved[0].ranks(counts)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("at_least", lambda array: array[:-1], r"at_least: found int64 of shape \(\d+,\), expected int64 of shape"),
        ("above", lambda array: array.astype(np.float64), "above: found float64"),
        ("covered", lambda array: array[1:], "covered: found uint8 of shape"),
        ("above", lambda array: array + 1_235, "has counts that no shard of 1234 items has"),
        ("at_least", lambda array: array * 0 + 1_235, "has counts that no shard of 1234 items has"),
        ("gallery", lambda array: array.astype("S"), "gallery: is .*save one text"),
        ("gallery", lambda array: None, r"holds \['above', 'at_least', 'covered'\], not the counts of a shard"),
    ],
)
def test_counts_that_do_not_fit_are_refused(saved, name, change, words):
    gallery, _, folder = saved
    arrays = dict(np.load(folder / "0.npz"))
    arrays[name] = change(arrays[name])
    np.savez(folder / "0.npz", **{key: array for key, array in arrays.items() if array is not None})
    with pytest.raises(MalformedRun, match=words):
        ShardCounts.load(folder / "0.npz", gallery)


def test_counts_that_were_cut_short_are_refused(saved):
    gallery, _, folder = saved
    whole = (folder / "0.npz").read_bytes()
    (folder / "0.npz").write_bytes(whole[:-100])
    with pytest.raises(MalformedRun, match=r"0\.npz: .*cut short or damaged"):
        ShardCounts.load(folder / "0.npz", gallery)


def test_threads_change_no_count(saved):
    gallery, expected, _ = saved
    _, ids, vectors, _ = judged(seed=8)
    for threads in (1, 3):
        assert_equal_ranks(gallery.ranks(gallery.count(ids, vectors, threads=threads)), expected)
    with pytest.raises(InvalidOption, match="threads is 0, expected a whole number of at least 1"):
        gallery.count(ids, vectors, threads=0)
