"""pair_similarities: values, exact ties, and what a run that does not fit gets."""

import math

import numpy as np
import pytest

from cxc_eccv.errors import MalformedRun, MissingIds
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, RatedPairs

pytestmark = pytest.mark.usefixtures("counted_by")

IMAGES = np.arange(100, 130)
CAPTIONS = np.arange(500, 590)


@pytest.fixture
def random():
    return np.random.default_rng(11)


def random_run(random, width=37):
    vectors = [random.normal(size=(ids.size, width)).astype(np.float32) for ids in (IMAGES, CAPTIONS)]
    return EmbeddingsRun(Embeddings(IMAGES, vectors[0]), Embeddings(CAPTIONS, vectors[1]))


def random_pairs(random, queries, items, n_pairs=200):
    return RatedPairs(random.choice(queries, n_pairs), random.choice(items, n_pairs), np.zeros(n_pairs))


def plain(run, direction, rated, similarity):
    sides = {"i": run.images, "t": run.captions}
    first, second = (
        {int(key): vector.astype(float) for key, vector in zip(side.ids, side.vectors, strict=True)}
        for side in (sides[direction[0]], sides[direction[-1]])
    )
    values = []
    for query, item in zip(rated.query_ids.tolist(), rated.item_ids.tolist(), strict=True):
        a = first[query]
        b = second[item]
        length = math.sqrt((a * a).sum() * (b * b).sum()) if similarity == "cosine" else 1
        values.append(math.fsum(a * b) / length)
    return values


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize(
    ("direction", "queries", "items"),
    [("t2t", CAPTIONS, CAPTIONS), ("i2i", IMAGES, IMAGES), ("i2t", IMAGES, CAPTIONS), ("t2i", CAPTIONS, IMAGES)],
)
def test_equal_to_a_plain_loop(direction, queries, items, similarity, random):
    run = random_run(random)
    rated = random_pairs(random, queries, items)
    values = ranked(run, Options(similarity=similarity)).compare(rated, direction)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, plain(run, direction, rated, similarity), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("width", [1, 7, 8, 64, 129, 9001])
def test_the_other_pairs_change_no_bit(width, random):
    run = random_run(random, width)
    rated = random_pairs(random, IMAGES, CAPTIONS)
    whole = ranked(run).compare(rated, "i2t")
    for size in (1, 3, 64, 130):
        part = RatedPairs(rated.query_ids[-size:], rated.item_ids[-size:], rated.ratings[-size:])
        assert ranked(run).compare(part, "i2t").tobytes() == whole[-size:].tobytes()


def test_pairs_of_identical_vectors_tie_everywhere(random):
    vectors = random.normal(size=(90, 101)).astype(np.float32)
    vectors[1::3], vectors[2::3] = vectors[1], vectors[2]
    run = EmbeddingsRun(None, Embeddings(CAPTIONS, vectors))
    rated = random_pairs(random, CAPTIONS[1::3], CAPTIONS[2::3])
    flip = random.random(200) < 0.5
    queries = np.where(flip, rated.item_ids, rated.query_ids)
    items = np.where(flip, rated.query_ids, rated.item_ids)
    values = ranked(run).compare(RatedPairs(queries, items, rated.ratings), "t2t")
    assert np.unique(values).size == 1


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e18])
def test_copies_have_a_cosine_of_exactly_one(random, scale):
    vectors = np.repeat(random.normal(scale=scale, size=(45, 101)).astype(np.float32), 2, axis=0)
    run = EmbeddingsRun(None, Embeddings(CAPTIONS, vectors))
    rated = RatedPairs(CAPTIONS[::2], CAPTIONS[1::2], np.zeros(45))
    assert set(ranked(run).compare(rated, "t2t").tolist()) == {1.0}


def test_order_of_the_run_changes_no_bit(random):
    run = random_run(random)
    rated = random_pairs(random, CAPTIONS, CAPTIONS)
    order = random.permutation(CAPTIONS.size)
    moved = EmbeddingsRun(None, Embeddings(CAPTIONS[order], run.captions.vectors[order]))
    assert ranked(moved).compare(rated, "t2t").tobytes() == ranked(run).compare(rated, "t2t").tobytes()


def test_a_zero_vector_has_no_cosine():
    run = EmbeddingsRun(None, Embeddings([1, 2, 3, 4], [[3.0, 4.0], [0.0, 0.0], [-1.0, 2.0], [0.0, 0.0]]))
    rated = RatedPairs(np.array([1, 1]), np.array([2, 3]), np.zeros(2))
    with pytest.raises(MalformedRun, match=r"1 of 2 captions have a zero vector.* the first: 2"):
        ranked(run).compare(rated, "t2t")
    assert ranked(run, Options(similarity="dot")).compare(rated, "t2t").tolist() == [0.0, 5.0]
    assert ranked(run).compare(RatedPairs(np.array([1]), np.array([3]), np.zeros(1)), "t2t").size == 1


def test_large_dot_products_do_not_overflow():
    run = EmbeddingsRun(None, Embeddings([1, 2], np.full((2, 4), 3e38)))
    rated = RatedPairs(np.array([1]), np.array([2]), np.zeros(1))
    assert ranked(run, Options(similarity="dot")).compare(rated, "t2t")[0] == pytest.approx(3.6e77, rel=1e-6)


def test_missing_items_are_named(random):
    rated = RatedPairs(np.array([500, 501]), np.array([502, 9]), np.zeros(2))
    with pytest.raises(MissingIds, match="lacks 1 of 4 captions the task needs, the first: 9"):
        ranked(random_run(random)).compare(rated, "t2t")
