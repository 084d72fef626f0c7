"""Metrics equal slow loops over ranked lists, and keep their bounds and orders."""

import numpy as np
import oracles
import strategies
from hypothesis import given
from hypothesis import strategies as st

from cxc_eccv.metrics.map_at_r import map_at_r
from cxc_eccv.metrics.mean_rank import mean_rank
from cxc_eccv.metrics.median_rank import median_rank
from cxc_eccv.metrics.mrr import mrr
from cxc_eccv.metrics.mrr_at_k import mrr_at_k
from cxc_eccv.metrics.r_precision import r_precision
from cxc_eccv.metrics.recall_at_k import recall_at_k


def as_lists(ranks):
    """Every query as a ranked list of item numbers, its positives, and R."""
    for row, size, n_positives in zip(
        np.split(ranks.ranks, ranks.indptr[1:-1]), ranks.n_gallery, ranks.n_positives, strict=True
    ):
        yield list(range(1, size + 1)), set(row.tolist()), int(n_positives)


@given(ranks=strategies.ranks(), k=st.integers(1, 50))
def test_metrics_equal_slow_loops(ranks, k):
    lists = list(as_lists(ranks))
    slow = {
        "recall": [oracles.recall_at_k(ranked, positives, k) for ranked, positives, _ in lists],
        "best": [oracles.best_rank(ranked, positives) for ranked, positives, _ in lists],
        "reciprocal": [oracles.reciprocal_rank(ranked, positives) for ranked, positives, _ in lists],
        "r_precision": [oracles.r_precision(*row) for row in lists],
        "map_at_r": [oracles.map_at_r(*row) for row in lists],
    }
    assert recall_at_k(ranks, k).tolist() == slow["recall"]
    assert median_rank(ranks).tolist() == mean_rank(ranks).tolist() == slow["best"]
    np.testing.assert_allclose(mrr(ranks), slow["reciprocal"], rtol=1e-15)
    cut = [value if value >= 1 / k else 0 for value in slow["reciprocal"]]
    np.testing.assert_allclose(mrr_at_k(ranks, k), cut, rtol=1e-15)
    np.testing.assert_allclose(r_precision(ranks), slow["r_precision"], rtol=1e-15)
    np.testing.assert_allclose(map_at_r(ranks), slow["map_at_r"], rtol=1e-14)


@given(ranks=strategies.ranks())
def test_map_at_r_is_at_most_r_precision(ranks):
    assert np.all(map_at_r(ranks) <= r_precision(ranks) + 1e-15)
