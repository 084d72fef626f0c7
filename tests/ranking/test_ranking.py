"""Ranking: the tie rule, blocks, folds, one product for both directions, and what an incomplete run gets."""

from dataclasses import replace

import numpy as np
import pytest
from plain_ranks import by_query, by_sorting, random_judgments, whole_number_run

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, MissingIds, UnknownName
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.counts import ScoresTooAlike
from cxc_eccv.ranking.readers.columns import ColumnPairs, brackets
from cxc_eccv.ranking.scores import Product, find_leaders
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, Judgments, RatedPairs

pytestmark = pytest.mark.usefixtures("counted_by")


def test_rounding_decides_no_gap_above_2e_6():
    random = np.random.default_rng(7)
    likeness = 10 ** random.uniform(-8, -2, (300, 1))
    images = random.standard_normal(384) + likeness * random.standard_normal((300, 384))
    captions = images + random.standard_normal((300, 384))
    ids = np.arange(300)
    run = EmbeddingsRun(Embeddings(ids, images.astype("float32")), Embeddings(ids, captions.astype("float32")))
    ranks = ranked(run).rank(Judgments.from_pairs(ids, ids, ids, ids), "t2i").ranks
    lengths = [np.linalg.norm(side.vectors.astype(float), axis=1, keepdims=True) for side in (run.captions, run.images)]
    cosines = (run.captions.vectors / lengths[0]) @ (run.images.vectors / lengths[1]).T
    gaps = cosines - np.diag(cosines)[:, None]
    np.fill_diagonal(gaps, 0)
    first, last, exact = (np.sum(gaps >= gap, axis=1) for gap in (2e-6, -2e-6, 0))
    assert np.all((first + 1 <= ranks) & (ranks <= last))
    assert np.any(ranks != exact)


@pytest.mark.thorough
@pytest.mark.parametrize("direction", ["i2t", "t2i", "t2t", "i2i"])
@pytest.mark.parametrize("block_size", [None, 1, 37])
def test_exact_scores_rank_as_a_plain_sort_says(direction, block_size):
    run = whole_number_run(70, 260)
    judgments = random_judgments(run, direction)
    ranks = ranked(run, Options(similarity="dot", block_size=block_size)).rank(judgments, direction)
    assert by_query(ranks) == by_sorting(run, judgments, direction)
    assert ranks.ties.sum() > 100


@pytest.mark.thorough
@pytest.mark.parametrize("block_size", [None, 1, 37, 64])
def test_all_directions_and_folds_share_one_product(block_size):
    run = whole_number_run(70, 260, seed=1)
    i2t, t2i = (random_judgments(run, direction, seed=2) for direction in ("i2t", "t2i"))
    folds, back = ({"query_folds": each.query_ids % 3, "gallery_folds": each.gallery_ids % 3} for each in (i2t, t2i))
    part = EmbeddingsRun(run.images, Embeddings(run.captions.ids[:200], run.captions.vectors[:200]))
    requests = {
        "all": ("i2t", i2t),
        "folds": ("i2t", random_judgments(run, "i2t", seed=2, **folds)),
        "part": ("i2t", random_judgments(part, "i2t", seed=3)),
        "back": ("t2i", t2i),
        "back in folds": ("t2i", random_judgments(run, "t2i", seed=2, **back)),
    }
    ranks = ranked(run, Options(similarity="dot", block_size=block_size)).rank_all(requests)
    for name, (direction, judgments) in requests.items():
        assert by_query(ranks[name]) == by_sorting(run, judgments, direction)
        assert ranks[name].n_positives.tolist() == judgments.n_positives.tolist()


def test_t2i_needs_no_second_product(monkeypatch):
    run = whole_number_run(70, 260, seed=4)
    monkeypatch.setattr("cxc_eccv.ranking.by_vectors.count_by_row", None)
    requests = {d: (d, random_judgments(run, d)) for d in ("i2t", "t2i")}
    ranks = ranked(run, Options(similarity="dot")).rank_all(requests)
    assert by_query(ranks["t2i"]) == by_sorting(run, requests["t2i"][1], "t2i")


@pytest.mark.parametrize("width", [64, 513])
@pytest.mark.parametrize("block_size", [None, 1, 50, 97])
def test_identical_captions_tie_wherever_they_stand(width, block_size):
    """Matrix products round equal columns differently at different places; the ranks must not show it."""
    random = np.random.default_rng(width)
    images = random.standard_normal((97, width)).astype(np.float32)
    captions = random.standard_normal((1003, width)).astype(np.float32)
    copies = np.sort(random.choice(1003, size=60, replace=False))
    captions[copies] = captions[copies[0]]
    run = EmbeddingsRun(Embeddings(np.arange(97), images), Embeddings(np.arange(1003), captions))
    each = Judgments.from_pairs(np.arange(97), np.arange(1003), np.arange(97), np.full(97, copies[30]))
    first = Judgments.from_pairs(np.arange(97), np.arange(1003), np.arange(97), np.full(97, copies[0]))
    ranks = ranked(run, Options(block_size=block_size)).rank_all({"a": ("i2t", each), "b": ("i2t", first)})
    assert ranks["a"].ties.tolist() == [59] * 97
    assert ranks["a"].ranks.tolist() == ranks["b"].ranks.tolist()


@pytest.mark.parametrize("block_size", [None, 1, 50, 97])
def test_identical_images_tie_in_the_shared_product(block_size):
    random = np.random.default_rng(5)
    images = random.standard_normal((300, 70)).astype(np.float32)
    images[[3, 120, 299]] = images[3]
    captions = random.standard_normal((400, 70)).astype(np.float32)
    run = EmbeddingsRun(Embeddings(np.arange(300), images), Embeddings(np.arange(400), captions))
    captions_of = Judgments.from_pairs(np.arange(300), np.arange(400), np.arange(300), np.arange(300))
    image_of = Judgments.from_pairs(np.arange(400), np.arange(300), np.arange(400), np.full(400, 120))
    ranks = ranked(run, Options(block_size=block_size)).rank_all({"i": ("i2t", captions_of), "t": ("t2i", image_of)})
    assert ranks["t"].ties.tolist() == [2] * 400


def test_constant_model_ranks_every_positive_last():
    run = EmbeddingsRun(*(Embeddings(np.arange(count), np.full((count, 33), 0.1)) for count in (2_000, 3_000)))
    requests = {
        "i": ("i2t", Judgments.from_pairs(np.arange(2_000), np.arange(3_000), np.arange(2_000), np.arange(2_000))),
        "t": (
            "t2i",
            Judgments.from_pairs(np.arange(3_000), np.arange(2_000), np.arange(3_000), np.arange(3_000) % 2_000),
        ),
    }
    ranks = ranked(run).rank_all(requests)
    assert set(ranks["i"].ranks.tolist()) == {3_000}
    assert set(ranks["t"].ranks.tolist()) == {2_000}
    assert set(ranks["t"].ties.tolist()) == {1_999}


def test_a_zero_vector_has_no_cosine():
    run = EmbeddingsRun(Embeddings([1], [[1.0, 0.0]]), Embeddings([7, 8, 9], -np.eye(3)[:, :2]))
    both = {
        "i": ("i2t", Judgments.from_pairs([1], [7, 8, 9], [1], [7])),
        "t": ("t2i", Judgments.from_pairs([7, 9], [1], [7, 9], [1, 1])),
    }
    within = {"w": ("t2t", Judgments.from_pairs([7], [7, 8, 9], [7], [8], without_self=True))}
    for requests in ({"i": both["i"]}, both, within):
        with pytest.raises(
            MalformedRun, match=r"1 of 3 captions have a zero vector.* the first: 9\. .*similarity='dot'"
        ):
            ranked(run).rank_all(requests)
        ranked(run, Options(similarity="dot")).rank_all(requests)
    queries = {"t": ("t2i", Judgments.from_pairs([7], [1], [7], [1]))}
    assert ranked(run).rank_all(queries)["t"].ranks.tolist() == [1]  # nobody asks for the zero vector


def test_run_is_ranked_by_its_own_similarity():
    run = EmbeddingsRun(Embeddings([1], [[1.0, 0.0]]), Embeddings([7, 8], [[0.1, 0.0], [5.0, 5.0]]), similarity="dot")
    judgments = Judgments.from_pairs([1], [7, 8], [1], [7])
    assert ranked(run).rank(judgments, "i2t").ranks.tolist() == [2]
    assert ranked(run, Options(similarity="cosine")).rank(judgments, "i2t").ranks.tolist() == [1]
    assert ranked(replace(run, similarity=None)).rank(judgments, "i2t").ranks.tolist() == [1]
    rated = RatedPairs(np.array([1]), np.array([8]), np.array([5.0]))
    assert ranked(run).compare(rated, "i2t").tolist() == [5.0]


def test_items_beyond_the_task_compete_with_nobody():
    run = whole_number_run(70, 260)
    judgments = random_judgments(run, "i2t")
    sides = {}
    for name, side in (("images", run.images), ("captions", run.captions)):
        more = np.full((5, side.vectors.shape[1]), 100.0)
        sides[name] = Embeddings(np.append(side.ids, range(90_000, 90_005)), np.vstack([side.vectors, more]))
    ranks = ranked(EmbeddingsRun(**sides), Options(similarity="dot")).rank(judgments, "i2t")
    assert by_query(ranks) == by_sorting(run, judgments, "i2t")


def test_missing_items_are_counted_and_named():
    run = whole_number_run(70, 260)
    judgments = random_judgments(run, "i2t")
    short = EmbeddingsRun(run.images, Embeddings(run.captions.ids[2:], run.captions.vectors[2:]))
    with pytest.raises(
        MissingIds, match=rf"lacks 2 of 260 captions.*first: {run.captions.ids[0]}, .*Encode the missing"
    ):
        ranked(short).rank(judgments, "i2t")
    with pytest.raises(MissingIds, match="has no images"):
        ranked(EmbeddingsRun(None, run.captions)).rank(judgments, "i2t")
    other = EmbeddingsRun(run.images, Embeddings(run.captions.ids + 10**6, run.captions.vectors))
    with pytest.raises(MissingIds, match="another split or data set"):
        ranked(other).rank(judgments, "i2t")


def test_swapped_images_and_captions_are_recognised():
    run = whole_number_run(70, 260)
    swapped = EmbeddingsRun(run.captions, run.images)
    with pytest.raises(MissingIds, match="images and captions look swapped"):
        ranked(swapped).rank(random_judgments(run, "i2t"), "i2t")


def test_options_out_of_range():
    run = whole_number_run(70, 260)
    judgments = random_judgments(run, "i2t")
    with pytest.raises(UnknownName, match="did you mean 'cosine'"):
        ranked(run, Options(similarity="cosin")).rank(judgments, "i2t")
    with pytest.raises(InvalidOption, match="block_size is 0"):
        ranked(run, Options(block_size=0)).rank(judgments, "i2t")
    with pytest.raises(UnknownName, match="direction"):
        ranked(run).rank(judgments, "i2x")


def test_dot_products_beyond_float32_are_refused():
    run = EmbeddingsRun(Embeddings([1, 2], np.full((2, 4), 1e20)), Embeddings([7], np.full((1, 4), 1e20)))
    requests = {"i": ("i2t", Judgments.from_pairs([1], [7], [1], [7]))}
    with pytest.raises(MalformedRun, match="beyond float32"):
        ranked(run, Options(similarity="dot")).rank_all(requests)
    requests["t"] = ("t2i", Judgments.from_pairs([7], [1, 2], [7], [1]))
    with pytest.raises(MalformedRun, match="beyond float32"):
        ranked(run, Options(similarity="dot")).rank_all(requests)
    assert ranked(run).rank_all(requests)["t"].ranks.tolist() == [2]


@pytest.mark.parametrize("lengths", [(1e-20, 1e-20), (1.0, 1e-32), (1e-32, 1.0)])
@pytest.mark.parametrize("zeros", [0, 2])
def test_dot_products_that_vanish_in_float32_are_refused(lengths, zeros):
    """They would all be zero, and tie."""
    images = np.zeros((3, 4))
    images[zeros:] = lengths[0]
    run = EmbeddingsRun(Embeddings([1, 2, 3], images), Embeddings([7], np.full((1, 4), lengths[1])))
    requests = {"i": ("i2t", Judgments.from_pairs([3], [7], [3], [7]))}
    with pytest.raises(MalformedRun, match=r"fall to \de-\d\d \(query 3 with item 7\).*multiply all vectors"):
        ranked(run, Options(similarity="dot")).rank_all(requests)
    requests["t"] = ("t2i", Judgments.from_pairs([7], [1, 2, 3], [7], [3]))
    with pytest.raises(MalformedRun, match="fall to"):
        ranked(run, Options(similarity="dot")).rank_all(requests)


def test_underflowing_dot_products_within_images_are_refused():
    run = EmbeddingsRun(Embeddings([1, 3], np.full((2, 2), 1e-18)), None)
    judgments = Judgments.from_pairs([1, 3], [1, 3], [1, 3], [3, 1], without_self=True)
    with pytest.raises(MalformedRun, match="fall to"):
        ranked(run, Options("dot")).rank(judgments, "i2i")


def test_zero_vectors_alone_have_dot_products():
    run = EmbeddingsRun(Embeddings([1], np.zeros((1, 2))), Embeddings([7, 8], np.zeros((2, 2))))
    ranks = ranked(run, Options(similarity="dot")).rank(Judgments.from_pairs([1], [7, 8], [1], [7]), "i2t")
    assert ranks.ranks.tolist() == [2]


def test_brackets_hold_where_products_underflow():
    """Float32 drops each of these products, or most of it; their sum in double precision is far from zero."""
    queries = np.full((1, 64), 1e-22, np.float32)
    items = np.full((1, 64), 0.5e-23, np.float32)
    low, high = brackets(queries, items, np.array([0]), np.array([0]))
    one_by_one = np.float32(0)
    for left, right in zip(queries[0], items[0], strict=True):
        one_by_one += left * right
    assert low[0] <= one_by_one <= high[0]


def test_a_query_cannot_be_its_own_positive():
    run = EmbeddingsRun(None, Embeddings([1, 2], np.eye(2)))
    with pytest.raises(DataError, match="its own positive"):
        ranked(run).rank(Judgments.from_pairs([1], [1, 2], [1], [1], without_self=True), "t2t")


@pytest.mark.parametrize("width", [3, 512, 2000])
def test_brackets_hold_the_score_of_every_product(width):
    random = np.random.default_rng(width)
    queries, items = (random.standard_normal((90, width)).astype(np.float32) for _ in range(2))
    rows, columns = (axis.ravel() for axis in np.indices((90, 90)))
    low, high = brackets(queries, items, rows, columns)
    for scores in (queries @ items.T, (items @ queries.T).T, np.stack([items @ one for one in queries])):
        assert np.all(low <= scores.ravel())
        assert np.all(scores.ravel() <= high)
    exact = (queries.astype(np.float64) @ items.T.astype(np.float64)).ravel()
    assert np.abs(high - exact).max() < 1e-3 * width


def test_copies_score_alike_despite_rounding_by_position(monkeypatch):
    def multiply(left, right, out):
        out[:] = left @ right + np.arange(right.shape[1])

    monkeypatch.setattr("numpy.matmul", multiply)
    product = Product(np.ones((3, 4), np.float32), np.ones((8, 4), np.float32), np.array([7]))
    block = product.fill(0, 3, product.room(3))
    assert block.tolist() == [[4.0] * 7 + [-np.inf]] * 3


def test_find_leaders_separates_rows_with_equal_hashes(monkeypatch):
    monkeypatch.setattr("cxc_eccv.ranking.scores.hash_rows", lambda rows: np.zeros(len(rows)))
    rows = np.array([[1, 2], [2, 1], [1, 2], [3, 3], [2, 1]], dtype=np.float32)
    assert find_leaders(rows).tolist() == [0, 1, 0, 3, 1]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
@pytest.mark.parametrize("reach", [0.01, 0.3])
def test_counts_do_not_depend_on_block_order(order, reach):
    random = np.random.default_rng(3)
    scores = np.round(random.random((30, 16)), 1).astype(np.float32)  # many ties
    columns = np.arange(16).repeat(2)
    rows = np.concatenate([random.choice(30, 2, replace=False) for _ in range(16)])
    own = scores[rows, columns]
    pairs = ColumnPairs(rows, columns, own - np.float32(reach), own + np.float32(reach), 2)
    segments = np.repeat([0, 1], 15)
    for block in order:
        part = slice(10 * block, 10 * block + 10)
        pairs.read(scores[part], part.start, segments[part])
    counts = pairs.resolve()
    for pair, (column, score) in enumerate(zip(columns, own, strict=True)):
        for segment in (0, 1):
            within = scores[segments == segment, column]
            assert counts.at_least[pair, segment] == np.count_nonzero(within >= score)
            assert counts.above[pair, segment] == np.count_nonzero(within > score)


def test_a_score_outside_its_bracket_unsettles():
    pairs = ColumnPairs(np.array([1]), np.array([0]), np.float32([0.4]), np.float32([0.6]), 1)
    with pytest.raises(ScoresTooAlike):
        pairs.read(np.full((2, 1), 0.7, dtype=np.float32), 0, np.zeros(2, dtype=np.int64))
