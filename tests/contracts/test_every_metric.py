"""What holds for every metric of the registry, by its kind."""

import importlib

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from cxc_eccv import registry
from cxc_eccv.evaluation.metric_inputs import METRIC_INPUTS
from cxc_eccv.metrics.kinds import FailureMetric, RankMetric, WholeMetric
from cxc_eccv.types import PositiveRanks

METRICS = registry.metrics()
RANK_METRICS = [name for name, spec in METRICS.items() if isinstance(spec, RankMetric)]


@pytest.mark.parametrize("name", registry.metric_functions())
def test_metric_is_documented_and_named_after_its_file(name):
    spec = METRICS[name]
    assert importlib.import_module(f"cxc_eccv.metrics.{name}").SPEC is spec
    assert all(section in spec.description for section in ("Args:", "Returns:", "References:", "Example:"))


@pytest.mark.parametrize("name", METRICS)
def test_label_leads_back_to_its_metric(name):
    for parameters in METRICS[name].variants():
        assert registry.metric_labelled(METRICS[name].label(**parameters)) == (METRICS[name], parameters)


def test_no_two_metrics_share_a_title():
    titles = [spec.long_title.format(**parameters) for spec in METRICS.values() for parameters in spec.variants()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", METRICS)
def test_evaluation_measures_what_it_needs(name):
    """Metrics of failures are of another command, and those of a whole task need the values of others."""
    assert (type(METRICS[name]) in METRIC_INPUTS) != isinstance(METRICS[name], FailureMetric | WholeMetric)


@pytest.mark.parametrize("name", [name for name, spec in METRICS.items() if isinstance(spec, WholeMetric)])
def test_metric_of_a_whole_task_scores_draws_alike(name):
    """The function takes the scores of both directions in its last axis."""
    spec = METRICS[name]
    draws = np.random.default_rng(0).random((3, 2 * len(spec.inputs)))
    assert spec.function(draws).tolist() == [float(spec.function(draw)) for draw in draws]


@pytest.mark.parametrize("name", RANK_METRICS)
@given(ranks=strategies.ranks())
def test_values_are_one_per_query_and_within_bounds(name, ranks):
    low, high = METRICS[name].bounds
    for parameters in METRICS[name].variants():
        values = METRICS[name].function(ranks, **parameters)
        assert values.shape == ranks.query_ids.shape
        assert values.dtype == np.float64
        assert np.all(values >= low)
        assert high is None or np.all(values <= high)


@pytest.mark.parametrize("name", RANK_METRICS)
@given(ranks=strategies.ranks())
def test_binary_metric_has_zeros_and_ones_only(name, ranks):
    for parameters in METRICS[name].variants():
        if METRICS[name].binary:
            assert np.isin(METRICS[name].function(ranks, **parameters), [0, 1]).all()


@pytest.mark.parametrize("name", RANK_METRICS)
@given(ranks=strategies.ranks(), data=st.data())
def test_a_better_rank_never_worsens_a_metric(name, ranks, data):
    """Lifting the last positive of the first query to a free rank above it."""
    spec = METRICS[name]
    row = ranks.ranks[: ranks.indptr[1]].tolist()
    free = sorted(set(range(1, row[-1])) - set(row)) if row else []
    if not free:
        return
    lifted = sorted([*row[:-1], data.draw(st.sampled_from(free))])
    better = type(ranks)(
        ranks.query_ids,
        ranks.indptr,
        np.concatenate([lifted, ranks.ranks[len(row) :]]),
        ranks.n_positives,
        ranks.n_gallery,
        ranks.ties,
    )
    sign = 1 if spec.higher_is_better else -1
    for parameters in spec.variants():
        gain = sign * (spec.function(better, **parameters) - spec.function(ranks, **parameters))
        assert gain[0] >= -1e-15
        assert not gain[1:].any()


@pytest.mark.parametrize("name", RANK_METRICS)
def test_value_depends_on_what_is_declared(name):
    """On the best rank alone, or as the sum of its terms: the bounds rest on it."""
    spec = METRICS[name]
    random = np.random.default_rng(0)
    for parameters in [*spec.variants()] * 50:
        ranks = np.sort(random.choice(np.arange(1, 31), size=random.integers(1, 8), replace=False))
        total = ranks.size + int(random.integers(3))
        value = spec.function(PositiveRanks.of([ranks.tolist()], n_positives=[total]), **parameters).item()
        if spec.best_rank:
            assert value == spec.function(PositiveRanks.of([ranks[:1].tolist()], n_positives=[1]), **parameters).item()
        else:
            shares = spec.share(np.arange(1, ranks.size + 1), ranks, np.full(ranks.size, total), **parameters)
            assert value == pytest.approx(shares.sum())
