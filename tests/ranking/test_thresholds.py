"""Selected scores equal those of a full sort, whichever way they are selected."""

import numpy as np
import pytest

from cxc_eccv.kernels.numpy_kernels import SHORT, scores_at_depths
from cxc_eccv.ranking.readers.rows import score_at_depth


def rows_of(seed, n_columns, levels):
    """Scores with many ties, and some columns that hold no item."""
    random = np.random.default_rng(seed)
    scores = random.integers(levels, size=(7, n_columns)).astype(np.float32)
    scores[:, random.random(n_columns) < 0.1] = -np.inf
    return scores


@pytest.mark.parametrize("levels", [1, 5, 1_000_000])
@pytest.mark.parametrize("depth", [1, 3, 10, 50, 240])
def test_one_depth_equals_a_sort(levels, depth):
    scores = rows_of(depth, 1_000, levels)
    before = scores.copy()
    np.testing.assert_array_equal(score_at_depth(scores, depth), -np.sort(-scores, axis=1)[:, depth - 1])
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize("levels", [1, 5, 1_000_000])
@pytest.mark.parametrize("largest", [1, 9, 30, 1_000])
@pytest.mark.parametrize("n_columns", [1_000, SHORT, SHORT + 1, 2_000])
def test_many_depths_equal_a_sort(levels, largest, n_columns):
    """Rows of up to 1,024 columns are sorted, longer ones partitioned from the largest depth to the smallest."""
    scores = rows_of(largest, n_columns, levels)
    before = scores.copy()
    depths = np.random.default_rng(largest).integers(1, largest + 1, size=(7, 3))
    expected = np.take_along_axis(-np.sort(-scores, axis=1), depths - 1, axis=1)
    np.testing.assert_array_equal(scores_at_depths(scores, depths), expected)
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize("depths", [[1, 2, 3], [3, 2, 1], [2, 2, 2], [SHORT + 9, 1, SHORT + 9], [5, SHORT + 9, 4]])
def test_depths_of_a_long_row_in_any_order(depths):
    """Scores 1 to 1,033 in no order: the one at depth d is 1,034 - d, at the depth of the whole row 1."""
    scores = np.random.default_rng(0).permutation(np.arange(1.0, SHORT + 10))[None]
    assert scores_at_depths(scores, np.array([depths])).tolist() == [[SHORT + 10 - depth for depth in depths]]
