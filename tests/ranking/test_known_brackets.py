"""A bracket becomes the score itself once that is known; nothing near it may get lost or be counted twice."""

import numpy as np
import pytest

from cxc_eccv.ranking.counts import ScoresTooAlike
from cxc_eccv.ranking.readers.columns import ColumnPairs


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
@pytest.mark.parametrize("reach", [0.01, 0.3])
def test_counts_do_not_depend_on_when_a_pairs_score_is_known(order, reach):
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
