"""A kept run gives the ranks of a plain sort: all for known positives, down to the end of its lists for others."""

import numpy as np
import oracles
import pytest

from cxc_eccv.evaluation.kept import keep_lists
from cxc_eccv.ranking.rank import ranks_of_run
from cxc_eccv.runs import RankingsRun, ScoresRun, load_run
from cxc_eccv.runs.kept import write_run_file
from cxc_eccv.types import Judgments, PositiveRanks

IMAGES, CAPTIONS = np.array([7, 3, 5, 11, 2, 19]), np.arange(40, 70)
SIDES = {"i2t": (IMAGES, CAPTIONS), "t2i": (CAPTIONS, IMAGES)}
FOLDS = {"i2t": (IMAGES % 2, CAPTIONS % 2), "t2i": (CAPTIONS % 2, IMAGES % 2)}


def draw(random, direction, *, folds=False):
    """A positive or two of every query, in its fold."""
    (queries, items), (of_queries, of_items) = SIDES[direction], FOLDS[direction]
    pairs = {
        (query, item)
        for query, fold in zip(queries.tolist(), of_queries, strict=True)
        for item in random.choice(items[of_items == fold] if folds else items, 2).tolist()
    }
    options = {"query_folds": of_queries, "gallery_folds": of_items} if folds else {}
    return Judgments.from_pairs(queries, items, *zip(*sorted(pairs), strict=True), **options)


@pytest.mark.parametrize("levels", [1, 3, 8, 1000])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_ranks_equal_a_plain_sort_as_far_as_they_are_known(levels, kind, tmp_path):
    random = np.random.default_rng(levels)
    matrix = random.integers(0, levels, (IMAGES.size, CAPTIONS.size)) * kind(1 + 1e-12)
    known = {
        f"{direction} {folds}": (direction, draw(random, direction, folds=folds))
        for direction in SIDES
        for folds in (False, True)
    }
    lists = keep_lists(ScoresRun(IMAGES, CAPTIONS, matrix), known, 4)
    write_run_file(tmp_path / "a.run.parquet", RankingsRun(lists, "a model", kept={"split": "test"}))
    kept = load_run(tmp_path / "a.run.parquet")
    scores = {
        direction: {
            query: dict(zip(items.tolist(), row.tolist(), strict=True))
            for query, row in zip(queries.tolist(), matrix if direction == "i2t" else matrix.T, strict=True)
        }
        for direction, (queries, items) in SIDES.items()
    }
    new = {f"new {name}": (name[:3], draw(random, name[:3], folds=name.endswith("True"))) for name in known}
    ranks = ranks_of_run(kept, known | new)
    for name, (direction, judgments) in (known | new).items():
        given = ranks[name]
        assert isinstance(given, PositiveRanks) or name in new
        check(given, judgments, scores[direction])


def check(given, judgments, scores):
    ranks = given if isinstance(given, PositiveRanks) else given.ranks
    positives = oracles.positives_of(judgments)
    for row, query in enumerate(judgments.query_ids.tolist()):
        own = {item: scores[query][item] for item in oracles.gallery_of(judgments, query)}
        expected = oracles.positive_ranks(oracles.ranking(own, positives[query]), positives[query])
        of_query = ranks.ranks[ranks.indptr[row] : ranks.indptr[row + 1]].tolist()
        if isinstance(given, PositiveRanks) or given.complete[row]:
            assert of_query == expected
            assert ranks.ties[row] == oracles.ties(own, positives[query])
        else:
            assert of_query == [rank for rank in expected if rank <= given.depths[row]]
            assert len(of_query) < len(expected)


def test_lists_end_where_no_tie_goes_on(tmp_path):
    matrix = np.array([[5, 4, 3, 3, 3, 1, 0, 0, 0, 0], [5, 4, 3, 3, 3, 3, 3, 3, 3, 0]], dtype=np.float32)
    run = ScoresRun(np.array([1, 2]), np.arange(10, 20), matrix)
    known = Judgments.from_pairs([1, 2], np.arange(10, 20), [1, 2], [10, 10])
    lists = keep_lists(run, {"": ("i2t", known)}, 4)["i2t"]
    assert lists.depths.tolist() == [5, 2]
    assert lists.known.at_least.tolist() == [[1], [1]]
