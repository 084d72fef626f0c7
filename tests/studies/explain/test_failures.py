"""Failures of runs of every form: they are those of recall@1, and a plain loop finds the same."""

import numpy as np
import oracles
import pandas as pd
import pytest

from cxc_eccv.errors import InvalidOption, MissingIds, RunTooShallow, UnknownIds, UnknownName
from cxc_eccv.evaluation import evaluate
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.studies.explain.failed_queries import DEPTH, TASKS, check_run, find_failures
from cxc_eccv.types import Embeddings, find_sides


def embeddings(content, vectors_of, similarity=None):
    random = np.random.default_rng(0)
    sides = [Embeddings(ids, vectors_of(random, ids.size)) for ids in (content.image_ids, content.caption_ids)]
    return EmbeddingsRun(*sides, similarity=similarity)


def random_vectors(content):
    return embeddings(content, lambda random, size: random.standard_normal((size, 8)))


def equal_vectors(content):
    return embeddings(content, lambda random, size: np.ones((size, 4)))


def tied_vectors(content):
    return embeddings(content, lambda random, size: random.integers(0, 2, (size, 3)).astype(float), "dot")


def tied_scores(content):
    shape = content.image_ids.size, content.caption_ids.size
    return ScoresRun(content.image_ids, content.caption_ids, np.random.default_rng(1).integers(0, 40, shape) / 40)


def equal_scores(content):
    shape = content.image_ids.size, content.caption_ids.size
    return ScoresRun(content.image_ids, content.caption_ids, np.full(shape, 0.5))


def own_first(content):
    own = content.image_ids[:, None] == content.caption_image_ids
    return ScoresRun(content.image_ids, content.caption_ids, own.astype(np.float32))


def given(content, depth=None):
    """Whole or short rankings of both directions and among captions, in an order of chance."""
    random = np.random.default_rng(2)
    ids = {"i": content.image_ids, "t": content.caption_ids}
    lists = {}
    for direction in TASKS:
        galleries = {query: random.permutation(ids[direction[-1]]) for query in ids[direction[0]].tolist()}
        lists[direction] = {query: items[items != query][:depth] for query, items in galleries.items()}
    return RankingsRun.from_dicts(**lists)


def one_item(content):
    return given(content, depth=1)


RUNS = (random_vectors, equal_vectors, tied_vectors, tied_scores, equal_scores, own_first, given, one_item)


def make_scorer(run, direction):
    """Function of a query and a gallery to item ids with scores, by plain loops; a ranking's items score by place."""
    if isinstance(run, RankingsRun):
        lists = run.lists[direction]
        ranked = {
            query: {item: -place for place, item in enumerate(lists.items[start:stop].tolist())}
            for query, start, stop in zip(lists.query_ids.tolist(), lists.indptr[:-1], lists.indptr[1:], strict=True)
        }
        return lambda query, _gallery: dict(ranked[query])
    if isinstance(run, ScoresRun):
        rows = run.scores.tolist() if direction == "i2t" else run.scores.T.tolist()
        queries, items = (run.image_ids, run.caption_ids) if direction == "i2t" else (run.caption_ids, run.image_ids)
        scores = dict(zip(queries.tolist(), rows, strict=True))
        return lambda query, _gallery: dict(zip(items.tolist(), scores[query], strict=True))
    sides = [getattr(run, side) for side in find_sides(direction)]
    queries, items = (dict(zip(side.ids.tolist(), side.vectors.tolist(), strict=True)) for side in sides)
    similarity = run.similarity or "cosine"
    return lambda query, gallery: {item: oracles.score_of(queries[query], items[item], similarity) for item in gallery}


def fail_by_loops(run, direction, content, depth):
    """Query to (image of the query, of the top item, the item, images that come next), by loops over dictionaries."""
    image_of = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    image_of |= {image: image for image in content.image_ids.tolist()}
    queries, gallery = (
        {"i": content.image_ids, "t": content.caption_ids}[side].tolist() for side in direction.split("2")
    )
    failures = {}
    score = make_scorer(run, direction)
    for query in queries:
        scores = score(query, gallery)
        if direction == "t2t":
            scores.pop(query, None)
        own = [item for item in scores if image_of[item] == image_of[query]]
        ranked = sorted(scores, key=lambda item: (-scores[item], item in own, item))[:depth]
        if image_of[ranked[0]] == image_of[query]:
            continue
        rest = dict.fromkeys(image_of[item] for item in ranked)
        rivals = [image for image in rest if image not in (image_of[query], image_of[ranked[0]])]
        failures[query] = image_of[query], image_of[ranked[0]], ranked[0], rivals
    return failures


def content_of(failures):
    rows = zip(failures.rows.itertuples(), failures.rival_ids.tolist(), strict=True)
    return {
        row.query_id: (row.truth_id, row.retrieved_id, row.item_id, [image for image in rivals if image >= 0])
        for row, rivals in rows
    }


TIES = "fail only because an item ties"


@pytest.mark.filterwarnings(f"ignore:.*{TIES}")
@pytest.mark.parametrize("make", RUNS)
@pytest.mark.parametrize("direction", TASKS)
def test_failures_are_those_of_a_plain_loop(sample_library, make, direction):
    content = sample_library.split()
    run = make(content)
    if (why := run.why_not(direction)) is not None:
        with pytest.raises(InvalidOption, match="cannot be computed: "):
            find_failures(run, sample_library.split(), direction)
        assert check_run(run, sample_library.split()).skipped[direction] == why
        return
    depth = 1 if make is one_item else DEPTH
    failures = find_failures(run, sample_library.split(), direction)
    assert content_of(failures) == fail_by_loops(run, direction, content, depth)
    report = evaluate(run, f"{TASKS[direction]}/{direction}", metrics=["recall_at_1"], data_dir=sample_library)
    assert len(failures) / failures.n_queries == pytest.approx(1 - report.results[0].value, abs=1e-12)
    assert failures.n_queries == report.results[0].n_queries


def test_equal_scores_make_every_query_fail(sample_library):
    """A warning counts the ties."""
    run = equal_scores(sample_library.split())
    with pytest.warns(UserWarning, match=f"t2i: .* {TIES}"):
        failures = find_failures(run, sample_library.split(), "t2i")
    assert len(failures) == failures.n_queries


@pytest.mark.parametrize("direction", TASKS)
def test_rank_is_unknown_beyond_the_ranking(sample_library, direction):
    content = sample_library.split()
    whole, short = (find_failures(given(content, depth), sample_library.split(), direction) for depth in (None, 20))
    assert whole.rows["truth_rank"].notna().all()
    assert whole.rows["truth_rank"].min() > 1
    expected = whole.rows["truth_rank"].mask(whole.rows["truth_rank"] > 20)
    assert expected.isna().any()
    pd.testing.assert_series_equal(short.rows["truth_rank"], expected)


@pytest.mark.filterwarnings(f"ignore:.*{TIES}")
def test_rival_is_found_behind_two_images_captions(sample_library):
    """Two images each have one vector for all their captions, so nine captions stand before the third image."""
    content = sample_library.split()
    pairs = np.searchsorted(np.sort(content.image_ids), content.caption_image_ids) // 2
    vectors = np.random.default_rng(0).standard_normal((pairs.max() + 1, 8))[pairs]
    run = EmbeddingsRun(None, Embeddings(content.caption_ids, vectors))
    failures = find_failures(run, sample_library.split(), "t2t")
    assert len(failures) == failures.n_queries
    assert (failures.rival_ids[:, 0] >= 0).all()


def test_a_run_is_refused_as_evaluate_refuses_it(sample_library):
    content = sample_library.split()
    whole = random_vectors(content)
    few = EmbeddingsRun(whole.images, Embeddings(content.caption_ids[3:], whole.captions.vectors[3:]))
    foreign = EmbeddingsRun(whole.images, Embeddings(content.caption_ids + 10_000_000, whole.captions.vectors))
    for run in (few, foreign, random_vectors(sample_library.split("validation"))):
        with pytest.raises((MissingIds, UnknownIds)) as found:
            find_failures(run, sample_library.split(), "t2i")
        with pytest.raises((MissingIds, UnknownIds)) as expected:
            evaluate(run, "coco_5k/t2i", metrics=["recall_at_1"], data_dir=sample_library)
        assert str(found.value) == str(expected.value)


def test_row_numbers_instead_of_ids_are_refused(sample_library):
    """The message has the code that gives the ids of the split that is explained."""
    content = sample_library.split("validation")
    whole = random_vectors(content)
    numbered = EmbeddingsRun(whole.images, Embeddings(np.arange(content.caption_ids.size), whole.captions.vectors))
    with pytest.raises(MissingIds, match=r"split = ce\.Library\('sample'\)\.split\('validation'\); caption_ids ="):
        find_failures(numbered, content, "t2i")


def test_ranking_outside_the_gallery_is_refused(sample_library):
    content = sample_library.split()
    run = RankingsRun.from_dicts(t2i={caption: [-5] for caption in content.caption_ids.tolist()})
    with pytest.raises((RunTooShallow, UnknownIds)):
        find_failures(run, sample_library.split(), "t2i")


def test_there_is_no_other_direction(sample_library):
    run = random_vectors(sample_library.split())
    with pytest.raises(UnknownName, match="direction"):
        find_failures(run, sample_library.split(), "i2i")
