"""MaxSim of runs with several vectors an item: equal to loops over pairs, and bad files refused."""

import numpy as np
import pytest

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.ranking import maxsim, ranks_of_run
from cxc_eccv.ranking.rank import similarities_of_run, top_k
from cxc_eccv.runs import EmbeddingsRun, MultiVectorRun, MultiVectors, load_embeddings, load_run, save_multi_vectors
from cxc_eccv.types import DIRECTIONS, Embeddings, Judgments, RatedPairs, sides_of

IMAGES, CAPTIONS = np.arange(40) + 100, np.arange(60) + 1000


def draw(random, count, whole):
    """Items of 1 to 6 vectors; whole numbers tie often and are added without rounding. Three items repeat others."""
    items = [random.integers(-2, 3, size=(random.integers(1, 7), 4)) for _ in range(count - 3)]
    if not whole:
        items = [random.standard_normal(item.shape).astype(np.float32) for item in items]
    return [*items, *items[:3]]


def make_run(whole=False):
    random = np.random.default_rng(7)
    sides = {"images": draw(random, IMAGES.size, whole), "captions": draw(random, CAPTIONS.size, whole)}
    run = MultiVectorRun(MultiVectors.of(IMAGES, sides["images"]), MultiVectors.of(CAPTIONS, sides["captions"]))
    return run, sides


def score_by_loops(query, item, direction):
    """Loops in double precision: vectors of the caption, or of the query within one modality, look for the other's."""
    summed, searched = (item, query) if direction == "i2t" else (query, item)
    return sum(max(float(np.dot(own, other)) for other in searched) for own in summed.astype(np.float64))


def judge(direction):
    queries, gallery = ({"images": IMAGES, "captions": CAPTIONS}[side] for side in sides_of(direction))
    positives = (np.arange(queries.size)[:, None] + [1, 5]) % gallery.size
    if len({*sides_of(direction)}) == 2:  # of the items that repeat others, too
        positives[:, 0] = (gallery.size - 3 + np.arange(queries.size) % 3) % gallery.size
    positives.sort(axis=1)
    indptr = np.arange(queries.size + 1) * 2
    within = len({*sides_of(direction)}) == 1
    return Judgments(queries, gallery, indptr, positives.ravel(), np.full(queries.size, 2), without_self=within)


@pytest.mark.parametrize("tile", [7, 1024])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("whole", [True, False])
def test_ranks_equal_loops(direction, whole, tile, monkeypatch):
    monkeypatch.setattr(maxsim, "VECTORS_AT_ONCE", tile)
    run, sides = make_run(whole)
    judged = judge(direction)
    queries, gallery = (sides[side] for side in sides_of(direction))
    if not whole:  # cosine, by the definition
        queries, gallery = ([v / np.linalg.norm(v, axis=1, keepdims=True) for v in side] for side in (queries, gallery))
    ranks = ranks_of_run(
        run, {"": (direction, judged)}, similarity="dot" if whole else "cosine", block_size=9 if tile == 7 else None
    )[""]
    ties = 0
    for row, query in enumerate(queries):
        scores = np.array([score_by_loops(query, item, direction) for item in gallery])
        if judged.without_self:
            scores[row] = -np.inf
        expected = []
        for item in judged.indices[2 * row : 2 * row + 2]:
            reach = scores >= scores[item] - (0 if whole else 1e-6)
            expected.append(reach.sum())
            ties += reach.sum() - (scores > scores[item] + (0 if whole else 1e-6)).sum() - 1
        # Of two positives that tie, one ranks above the other.
        if expected[0] == expected[1]:
            expected[0] -= 1
        np.testing.assert_array_equal(ranks.ranks[2 * row : 2 * row + 2], sorted(expected))
    assert ties > 10


def test_one_vector_an_item_ranks_as_embeddings_do():
    random = np.random.default_rng(3)
    vectors = {side: random.standard_normal((ids.size, 16)) for side, ids in (("i", IMAGES), ("c", CAPTIONS))}
    plain = EmbeddingsRun(Embeddings(IMAGES, vectors["i"]), Embeddings(CAPTIONS, vectors["c"]))
    multi = MultiVectorRun(
        *(MultiVectors.of(*side) for side in ((IMAGES, vectors["i"][:, None]), (CAPTIONS, vectors["c"][:, None])))
    )
    for direction in DIRECTIONS:
        judged = judge(direction)
        tops = [top_k(run, judged, direction, 10) for run in (plain, multi)]
        np.testing.assert_array_equal(tops[0].ids, tops[1].ids)
        np.testing.assert_allclose(tops[0].scores, tops[1].scores, rtol=0, atol=1e-6)
        ranks = [ranks_of_run(run, {"": (direction, judged)})[""].ranks for run in (plain, multi)]
        np.testing.assert_array_equal(*ranks)


@pytest.mark.slow  # it imports sentence-transformers
def test_scores_equal_sentence_transformers():
    peer = pytest.importorskip("sentence_transformers.util")
    torch = pytest.importorskip("torch")
    if not hasattr(peer, "maxsim"):
        pytest.skip("needs sentence-transformers 6")
    random = np.random.default_rng(5)
    texts, images = ([torch.from_numpy(item) for item in draw(random, count, whole=False)] for count in (60, 40))
    run = MultiVectorRun(MultiVectors.of(IMAGES, images), MultiVectors.of(CAPTIONS, texts), similarity="dot")
    theirs = peer.maxsim(texts, images).numpy()
    top = top_k(run, judge("t2i"), "t2i", IMAGES.size)
    ours = np.take_along_axis(top.scores, np.argsort(top.ids, axis=1), axis=1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    rows, columns = np.divmod(np.arange(theirs.size), IMAGES.size)
    for direction, ids in {"t2i": (CAPTIONS[rows], IMAGES[columns]), "i2t": (IMAGES[columns], CAPTIONS[rows])}.items():
        pairs = similarities_of_run(run, direction, RatedPairs(*ids, np.zeros(rows.size)))
        np.testing.assert_allclose(pairs, theirs.ravel(), rtol=1e-5, atol=1e-5)
    with pytest.raises(InvalidOption, match="t2t"):
        similarities_of_run(run, "t2t", RatedPairs(CAPTIONS[:1], CAPTIONS[1:2], np.zeros(1)))


def test_files_keep_every_value_and_evaluate(tmp_path):
    library = ce.Library("sample")
    content, random = library.karpathy("test"), np.random.default_rng(0)
    sides = [
        MultiVectors.of(ids, [random.standard_normal((1 + item % 4, 8), np.float32) for item in ids.tolist()])
        for ids in (content.image_ids, content.caption_ids)
    ]
    run = MultiVectorRun(*sides, similarity="dot", model="late")
    save_multi_vectors(tmp_path / "late.npz", run)
    loaded = load_run(tmp_path / "late.npz")
    assert (loaded.kind, loaded.similarity, loaded.model) == ("multi-vectors", "dot", "late")
    for side in ("images", "captions"):
        for one, other in zip(getattr(run, side), getattr(loaded, side), strict=True):
            np.testing.assert_array_equal(one, other)
    report = ce.evaluate(loaded, data_dir=library)
    assert {row.direction for row in report.results} >= {"i2t", "t2i", "t2t"}
    with pytest.raises(InvalidOption, match="device='cpu' is for embeddings"):
        ce.evaluate(loaded, data_dir=library, device="cpu")
    with pytest.raises(MalformedRun, match="has image_offsets, so several vectors an item"):
        load_embeddings(tmp_path / "late.npz")


GOOD = {
    "image_ids": np.array([1, 2]),
    "image_embeddings": np.ones((3, 2), np.float32),
    "image_offsets": np.array([0, 1, 3]),
    "caption_ids": np.array([7, 8]),
    "caption_embeddings": np.ones((2, 2), np.float32),
    "caption_offsets": np.array([0, 1, 2]),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_offsets": None}, "but not image_offsets"),
        ({"caption_ids": None}, "but not caption_ids"),
        ({"image_offsets": np.array([0, 3])}, r"shape \(2,\), expected integers of shape \(3,\)"),
        ({"image_offsets": np.array([0.0, 1.0, 3.0])}, "image_offsets: has type float64"),
        ({"image_offsets": np.array([1, 2, 3])}, "image_offsets: goes from 1 to 3, expected from 0 to 3"),
        ({"image_offsets": np.array([0, 1, 2])}, "goes from 0 to 2, expected from 0 to 3"),
        ({"image_offsets": np.array([0, 0, 3])}, r"item 0 \(id 1\) goes from 0 to 0; offsets must ascend"),
        ({"image_offsets": np.array([0, 5, 3])}, r"item 1 \(id 2\) goes from 5 to 3"),
        ({"image_ids": np.array([1, 1])}, "id 1 is in rows 0 and 1"),
        ({"image_embeddings": np.array([[1, 1], [1, 1], [1, np.nan]])}, r"value nan in row 2, column 1 \(id 2\)"),
        ({"image_embeddings": np.ones(3)}, r"image_embeddings: has shape \(3,\)"),
        ({"caption_embeddings": np.ones((2, 3))}, r"have \[2, 3\] dimensions"),
        ({"similarity": np.array("euclid")}, "similarity is 'euclid'"),
    ],
)
def test_bad_files_are_refused(changes, message, tmp_path):
    arrays = {name: array for name, array in {**GOOD, **changes}.items() if array is not None}
    np.savez(tmp_path / "late.npz", **arrays)
    with pytest.raises(MalformedRun, match=message):
        load_run(tmp_path / "late.npz")


def test_vectors_without_a_score_are_refused():
    judged = Judgments([7, 8], [1, 2], [0, 1, 2], [0, 1], [1, 1])
    sides = MultiVectors.of([1, 2], [np.ones((1, 2)), np.eye(3)[:, :2]]), MultiVectors.of([7, 8], np.ones((2, 1, 2)))
    with pytest.raises(MalformedRun, match="1 of 2 images have a zero vector, which has no cosine, the first: 2"):
        ranks_of_run(MultiVectorRun(*sides), {"": ("t2i", judged)})
    large = MultiVectors.of([7, 8], np.full((2, 9, 2), 1e38, np.float32))
    with pytest.raises(MalformedRun, match="beyond float32"):
        ranks_of_run(MultiVectorRun(sides[0], large), {"": ("t2i", judged)}, similarity="dot")
    with pytest.raises(MalformedRun, match=r"id 8: its vectors have shape \(0, 2\)"):
        MultiVectors.of([7, 8], [np.ones((1, 2)), np.ones((0, 2))])
