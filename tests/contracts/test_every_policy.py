"""What holds for every policy for unjudged pairs: in the package, and in a copy with one more."""

import numpy as np
import pytest

from cxc_eccv.errors import DataError
from cxc_eccv.metrics.entail_at_k import entail_at_k
from cxc_eccv.types import Judgments, TopK
from cxc_eccv.unjudged.policies import policies

pytestmark = pytest.mark.parametrize("name", policies())

GAINS = np.random.default_rng(0).integers(0, 2, (50, 7)).astype(np.float64)


def test_labelled_pairs_alone_give_their_mean(name):
    values = policies()[name].compute(GAINS, np.ones(GAINS.shape, dtype=bool))
    np.testing.assert_allclose(values, GAINS.mean(axis=1))


def test_values_are_shares(name):
    judged = np.random.default_rng(1).random(GAINS.shape) < 0.5
    judged[:, 0] = True
    values = policies()[name].compute(GAINS * judged, judged)
    assert values.shape == (50,)
    assert np.all((values >= 0) & (values <= 1))


def test_only_policies_needing_labels_refuse_unlabelled_queries(name):
    judgments = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 1], [0], [0], gains=np.array([1.0]))
    top = TopK(np.array([5]), np.array([[8, 9]]))
    if policies()[name].needs_label:
        with pytest.raises(DataError, match="none of the top 2 of query 5 has a label"):
            entail_at_k(top, judgments, 2, name)
    else:
        assert 0 <= entail_at_k(top, judgments, 2, name).item() <= 1
