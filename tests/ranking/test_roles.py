"""Ranks of a model that encodes queries otherwise than the gallery: each direction takes the vectors of its roles."""

import numpy as np
import oracles
import pytest
from plain_ranks import by_query, random_judgments, whole_number_run

pytest.importorskip("torch", reason="torch is not installed: pip install torch")

from cxc_eccv.encoding import split_ranks
from cxc_eccv.errors import MalformedRun
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.readers.rows import TopRows
from cxc_eccv.runs import EmbeddingsRun, load_embeddings, load_run, save_embeddings
from cxc_eccv.types import Embeddings, RatedPairs

DIRECTIONS = {"i2t": ("image", "caption"), "t2i": ("caption", "image"), "t2t": ("caption",) * 2, "i2i": ("image",) * 2}
ROLES = ("image_query", "caption_query", "image_symmetric", "caption_symmetric")


def run_in_roles(*names, seed=0):
    """A run of whole numbers with other vectors in these roles."""
    plain = whole_number_run(40, 120, seed=seed)
    roles = {}
    for number, name in enumerate(names, start=1):
        other = whole_number_run(40, 120, seed=seed + number)
        gallery, vectors = (
            (plain.images, other.images) if name.startswith("image") else (plain.captions, other.captions)
        )
        roles[name] = Embeddings(gallery.ids, vectors.vectors)
    return EmbeddingsRun(plain.images, plain.captions, roles=roles)


def vectors_in(run, kind, role):
    """Ids and exact vectors of a side in a role, read from the run's entries alone."""
    gallery = run.images if kind == "image" else run.captions
    chosen = run.roles.get(f"{kind}_{role}", gallery)
    return gallery.ids.tolist(), chosen.vectors.astype(np.float64)


def exact_scores(run, direction, roles=("query", "gallery")):
    """Query id to item id to inner product."""
    (query_ids, queries), (item_ids, items) = (
        vectors_in(run, kind, role) for kind, role in zip(DIRECTIONS[direction], roles, strict=True)
    )
    rows = (queries @ items.T).tolist()
    return {query: dict(zip(item_ids, row, strict=True)) for query, row in zip(query_ids, rows, strict=True)}


def slow_ranks(run, judgments, direction):
    """Ranks, ties and gallery size of every query, by sorting Python lists."""
    every = exact_scores(run, direction)
    found = []
    for query, positives in oracles.positives_of(judgments).items():
        scores = {item: every[query][item] for item in oracles.gallery_of(judgments, query)}
        order = oracles.ranking(scores, positives)
        found.append((oracles.positive_ranks(order, positives), oracles.ties(scores, positives), len(scores)))
    return found


@pytest.mark.parametrize("block_size", [None, 1, 37])
@pytest.mark.parametrize("names", [(), ("caption_query",), ("image_query",), ROLES[:2], ROLES], ids=len)
def test_roles_rank_as_slow_oracle(names, block_size):
    run = run_in_roles(*names)
    requests = {name: (name, random_judgments(run, name)) for name in DIRECTIONS}
    ranks = ranked(run, Options(similarity="dot", block_size=block_size)).rank_all(requests)
    for direction, (_, judgments) in requests.items():
        assert by_query(ranks[direction]) == slow_ranks(run, judgments, direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_roles_hold_for_tops_and_shards(direction):
    run = run_in_roles(*ROLES)
    judgments = random_judgments(run, direction)
    options = Options(similarity="dot")
    reader = TopRows(judgments, 5)
    ranks = ranked(run, options).rank_all({"": (direction, judgments)}, {direction: [reader]})[""]
    assert by_query(ranks) == slow_ranks(run, judgments, direction)
    assert by_query(split_ranks(run, direction, judgments, similarity="dot")) == slow_ranks(run, judgments, direction)
    every = exact_scores(run, direction)
    for query, items in zip(judgments.query_ids.tolist(), reader.result.ids.tolist(), strict=True):
        best = sorted((every[query][item] for item in oracles.gallery_of(judgments, query)), reverse=True)
        assert [every[query][item] for item in items] == best[:5]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("names", [ROLES[:2], ROLES], ids=["gallery", "symmetric"])
def test_rated_pairs_take_no_role(direction, names):
    run = run_in_roles(*names)
    random = np.random.default_rng(0)
    every = exact_scores(run, direction, ("symmetric", "symmetric"))
    left = random.choice(list(every), 50)
    right = random.choice(list(next(iter(every.values()))), 50)
    found = ranked(run, Options("dot")).compare(RatedPairs(left, right, np.zeros(50)), direction)
    assert found.tolist() == [every[a][b] for a, b in zip(left.tolist(), right.tolist(), strict=True)]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_roles_survive_saving(suffix, tmp_path):
    run = run_in_roles(*ROLES)
    save_embeddings(tmp_path / f"run{suffix}", run)
    for load in (load_embeddings, load_run):
        back = load(tmp_path / f"run{suffix}")
        assert back.roles.keys() == run.roles.keys()
        for name, embeddings in run.roles.items():
            assert back.roles[name].ids.tolist() == embeddings.ids.tolist()
            assert np.array_equal(back.roles[name].vectors, embeddings.vectors)
    assert back.facts().roles == tuple(sorted(ROLES))


def test_without_roles_keeps_symmetric_vectors():
    run = run_in_roles("caption_query", "caption_symmetric")
    alike = run.without_roles()
    assert not alike.roles
    assert alike.images is run.images
    assert alike.captions is run.roles["caption_symmetric"]


IDS = np.arange(3)
VECTORS = np.eye(3, dtype=np.float32)
BAD = {
    "rows": ({"caption_query_embeddings": VECTORS[:2]}, "caption_query_embeddings: has 2 rows for 3 ids"),
    "width": ({"caption_query_embeddings": VECTORS[:, :2]}, "caption_query_embeddings have 2 dimensions"),
    "no gallery": ({"image_query_embeddings": VECTORS}, "'image_query_embeddings' but not 'image_ids'"),
    "NaN": ({"caption_symmetric_embeddings": VECTORS * np.nan}, "caption_symmetric_embeddings: value nan"),
    "other name": ({"captions_query_embeddings": VECTORS}, "unknown entry 'captions_query_embeddings'"),
    "own ids": ({"query_ids": IDS}, "unknown entry 'query_ids'"),
}


@pytest.mark.parametrize(("entries", "words"), BAD.values(), ids=BAD)
def test_bad_vectors_in_roles_are_refused(entries, words, tmp_path):
    np.savez(tmp_path / "run.npz", caption_ids=IDS, caption_embeddings=VECTORS, **entries)
    with pytest.raises(MalformedRun, match=words.replace("(", r"\(")):
        load_run(tmp_path / "run.npz")


def test_runs_refuse_roles_of_other_items():
    captions = Embeddings(IDS, VECTORS)
    with pytest.raises(MalformedRun, match="other ids than caption_embeddings"):
        EmbeddingsRun(None, captions, roles={"caption_query": Embeddings(IDS[::-1], VECTORS)})
    with pytest.raises(MalformedRun, match="unknown role 'query'"):
        EmbeddingsRun(None, captions, roles={"query": captions})
