"""Runs of small whole numbers, judgments over them, and ranks and other forms of runs by plain sorts."""

from dataclasses import fields, replace

import numpy as np
import oracles

from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import DIRECTIONS, Embeddings, Judgments, PositiveRanks


def whole_number_run(n_images, n_captions, seed=0, width=24):
    """Vectors of small whole numbers: every product is exact in float32, and many tie."""
    random = np.random.default_rng(seed)
    return EmbeddingsRun(
        *(
            Embeddings(first + random.permutation(count), random.integers(-3, 4, (count, width)).astype(np.float32))
            for count, first in ((n_images, 1_000), (n_captions, 5_000))
        )
    )


def sides_of_run(run, direction):
    sides = {"i": run.images, "t": run.captions}
    return sides[direction[0]], sides[direction[-1]]


def random_judgments(run, direction, seed=0, **options):
    """One to eight positives of every query, itself left out."""
    random = np.random.default_rng(seed)
    queries, gallery = (side.ids for side in sides_of_run(run, direction))
    pairs = [
        (query, item)
        for query in queries
        for item in random.choice(gallery, size=random.integers(1, 9), replace=False)
        if item != query
    ]
    rows, items = np.array(pairs).T
    within = direction in ("t2t", "i2i")
    return Judgments.from_pairs(np.unique(rows), gallery, rows, items, without_self=within, **options)


def products(run, direction):
    """Query id to item id to inner product, exact for small numbers."""
    queries, items = sides_of_run(run, direction)
    matrix = queries.vectors.astype(np.float64) @ items.vectors.astype(np.float64).T
    return {
        query: dict(zip(items.ids.tolist(), row, strict=True))
        for query, row in zip(queries.ids.tolist(), matrix.tolist(), strict=True)
    }


def ranked_lists(run, direction, *, scored, depth=None):
    """Every item of the run for every query, by falling score; tied items in no particular order."""
    scores = products(run, direction)
    lists = {query: sorted(row, key=lambda item: (-row[item], item % 7))[:depth] for query, row in scores.items()}
    flat = np.array([scores[query][item] for query, row in lists.items() for item in row])
    return replace(RankedLists.of(lists), scores=flat if scored else None)


def by_sorting(run, judgments, direction):
    """Ranks, ties and gallery size of every query."""
    every = products(run, direction)
    found = []
    for query, positives in oracles.positives_of(judgments).items():
        scores = {item: every[query][item] for item in oracles.gallery_of(judgments, query)}
        ranked = oracles.ranking(scores, positives)
        found.append((oracles.positive_ranks(ranked, positives), oracles.ties(scores, positives), len(scores)))
    return found


def by_query(ranks):
    """The same of ranks that were computed."""
    rows = np.split(ranks.ranks, ranks.indptr[1:-1])
    return [
        (row.tolist(), int(tied), int(size)) for row, tied, size in zip(rows, ranks.ties, ranks.n_gallery, strict=True)
    ]


def assert_equal_ranks(left, right):
    for name in [field.name for field in fields(PositiveRanks) if field.name != "if_ties_help"]:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    assert (left.if_ties_help is None) == (right.if_ties_help is None)
    if left.if_ties_help is not None:
        assert_equal_ranks(left.if_ties_help, right.if_ties_help)


def unit_vectors(run):
    return {
        name: side.vectors / np.linalg.norm(side.vectors.astype(float), axis=1, keepdims=True)
        for name, side in (("i", run.images), ("t", run.captions))
    }


def orders_of(run):
    """Direction to each query's whole ranking, by plain matrix products and sorting."""
    orders = {}
    units = unit_vectors(run)
    for direction in DIRECTIONS:
        queries, items = sides_of_run(run, direction)
        order = np.argsort(-(units[direction[0]] @ units[direction[-1]].T), axis=1, kind="stable")
        orders[direction] = dict(zip(queries.ids.tolist(), items.ids[order].tolist(), strict=True))
    return orders


def forms_of(run):
    """One model in all forms: its vectors, their cosines, and whole rankings of all directions."""
    units = unit_vectors(run)
    scores = ScoresRun(run.images.ids, run.captions.ids, units["i"] @ units["t"].T)
    return {"embeddings": run, "scores": scores, "rankings": RankingsRun.from_dicts(**orders_of(run))}


def slow_scores(run, judgments, direction, left_out=()):
    """Metric to its mean over queries, by loops over sorted lists, as if some images had never been; and how many."""
    vectors = [dict(zip(side.ids.tolist(), side.vectors, strict=True)) for side in sides_of_run(run, direction)]
    lost = {"i": set(left_out), "t": set()}
    rows = []
    for (query, named), reach in zip(oracles.positives_of(judgments).items(), judgments.unreachable, strict=True):
        positives = named - lost[direction[-1]]
        if left_out and (query in lost[direction[0]] or not positives):
            continue
        gallery = [item for item in oracles.gallery_of(judgments, query) if item not in lost[direction[-1]]]
        scores = {item: oracles.score_of(vectors[0][query], vectors[1][item]) for item in gallery}
        rows.append(oracles.values_of(oracles.ranking(scores, positives), positives, len(positives) + int(reach)))
    values = {label: np.mean([row[label] for row in rows]) for label in rows[0]}
    return values | {"median_rank": np.median([row["mean_rank"] for row in rows])}, len(rows)
