"""Ranks of judged items, negatives too, equal a sort of whole rows in which ties are the worst for positives."""

import numpy as np
import pytest

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.readers import JudgedRows
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import Embeddings, Judgments


def sorted_ranks(scores, judged, verdicts):
    """Rank of every item, and how many items other than positives tie with one."""
    kind = {item: 0 if verdict == 0 else 2 for item, verdict in zip(judged, verdicts, strict=True)}
    order = sorted(range(len(scores)), key=lambda item: (-scores[item], kind.get(item, 1)))
    high = {scores[item] for item in judged if kind[item] == 2}
    ties = sum(scores[item] in high for item in order if kind.get(item, 1) != 2)
    return {item: place for place, item in enumerate(order, start=1)}, ties


def read(run, judgments, direction="i2t", **options):
    reader = JudgedRows(judgments)
    ranked(run, Options(**options)).rank_all({}, {direction: [reader]})
    return reader.result


def draw(random, n_queries, n_items):
    """Vectors of few values, whose products tie often, and judgments with every verdict."""
    images, captions = (random.integers(-1, 2, (size, 3)) + 0.0 for size in (n_queries, n_items))
    rows = []
    for query in range(n_queries):
        items = random.choice(n_items, random.integers(1, n_items + 1), replace=False)
        verdicts = random.integers(0, 3, items.size)
        verdicts[0] = random.integers(1, 3)
        rows += [(query + 100, item + 500, verdict) for item, verdict in zip(items, verdicts, strict=True)]
    queries, items, verdicts = np.array(rows).T
    ids = np.arange(n_queries) + 100, np.arange(n_items) + 500
    return images, captions, Judgments.from_pairs(*ids, queries, items, gains=verdicts)


def assert_ranks(result, judgments, scores):
    for query, row in enumerate(scores):
        entries = slice(*judgments.indptr[query : query + 2])
        verdicts = judgments.gains[entries]
        ranks, ties = sorted_ranks(row.tolist(), judgments.indices[entries], verdicts)
        expected = sorted(
            (ranks[item], verdict) for item, verdict in zip(judgments.indices[entries], verdicts, strict=True)
        )
        assert list(zip(result.ranks[entries].tolist(), result.verdicts[entries].tolist(), strict=True)) == expected
        assert result.ties[query] == ties


@pytest.mark.parametrize("seed", range(20))
def test_vectors_and_scores(seed):
    random = np.random.default_rng(seed)
    images, captions, judgments = draw(random, random.integers(1, 6), random.integers(2, 30))
    scores = images @ captions.T
    assert_ranks(read(ScoresRun(judgments.query_ids, judgments.gallery_ids, scores), judgments), judgments, scores)
    run = EmbeddingsRun(Embeddings(judgments.query_ids, images), Embeddings(judgments.gallery_ids, captions))
    assert_ranks(read(run, judgments, similarity="dot"), judgments, scores)
    swapped = EmbeddingsRun(Embeddings(judgments.gallery_ids, captions), Embeddings(judgments.query_ids, images))
    assert_ranks(read(swapped, judgments, "t2i", similarity="dot"), judgments, scores)


@pytest.mark.parametrize("seed", range(5))
def test_rankings(seed):
    random = np.random.default_rng(seed)
    _, _, judgments = draw(random, 4, 20)
    orders = {int(query): random.permutation(judgments.gallery_ids) for query in judgments.query_ids}
    scores = np.array([-np.argsort(order).astype(float) for order in orders.values()])
    run = RankingsRun({"i2t": RankedLists.of(orders, "rankings")})
    assert_ranks(read(run, judgments), judgments, scores)
    short = {query: order[:-1] for query, order in orders.items()}
    with pytest.raises(RunTooShallow, match="query 100 needs 20 ranked items for the ranks of its judged items"):
        read(RankingsRun({"i2t": RankedLists.of(short, "rankings")}), judgments)
