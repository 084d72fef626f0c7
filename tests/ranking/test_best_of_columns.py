"""The best rows of every column, against a sort of the whole matrix."""

import numpy as np
import pytest

from cxc_eccv import kernels
from cxc_eccv.ranking.counts import ScoresTooAlike
from cxc_eccv.ranking.readers.columns import BestOfColumns, DeepColumns


def sorted_lists(scores, depth):
    """Of each column, all (score, row) at least as high as its depth-th best."""
    for column in scores.T:
        last = np.sort(column)[::-1][min(depth, column.size) - 1]
        yield sorted((score, row) for row, score in enumerate(column.tolist()) if score >= last)


@pytest.mark.parametrize("size", [1, 7, 64, 500])
@pytest.mark.parametrize("levels", [60, 10**6])
def test_lists_equal_a_sort_whatever_the_blocks(size, levels):
    random = np.random.default_rng(size)
    scores = random.integers(0, levels, (500, 30)).astype(np.float32)
    asked = np.arange(30) != 4
    best = BestOfColumns(6, asked)
    for start in random.permutation(np.arange(0, 500, size)):
        best.read(scores[start : start + size], np.arange(start, min(start + size, 500)) + 1000)
    found, places = best.lists()
    lists = [
        sorted((score, place - 1000) for score, place in zip(*both, strict=True) if place >= 0)
        for both in zip(found.tolist(), places.tolist(), strict=True)
    ]
    expected = list(sorted_lists(scores, 6))
    expected[4] = []
    assert lists == expected
    assert np.isneginf(found[places < 0]).all()


def test_fewer_rows_than_asked_for_are_all_kept():
    best = BestOfColumns(5, np.array([True]))
    best.read(np.float32([[1], [2]]), np.array([0, 1]))
    assert best.lists()[0].tolist() == [[1, 2]]


def test_too_many_ties_are_not_kept():
    best = BestOfColumns(2, np.ones(3, dtype=bool))
    best.read(np.zeros((10, 3), np.float32), np.arange(10))
    with pytest.raises(ScoresTooAlike):
        best.read(np.zeros((10, 3), np.float32), np.arange(10, 20))


@pytest.mark.skipif(not kernels.COMPILED, reason="no compiler was at hand when the package was installed")
def test_a_gallery_without_a_row_in_the_sample_is_kept_whole():
    best = DeepColumns(np.array([2, 0]), np.zeros((3, 2), np.float32), np.zeros(0, np.int64), 3)
    best.read(np.arange(8, dtype=np.float32).reshape(4, 2), np.array([5, -1, 6, 7]))
    assert best.complete
    assert best.sizes(np.array([0, 1])).tolist() == [3, 0]
    assert [table.tolist() for table in best.lists(np.array([0]))] == [[[0, 4, 6]], [[5, 6, 7]]]
