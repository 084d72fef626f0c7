"""The value of every metric if ties hurt and if ties help, against all orders of items with equal scores."""

import functools
import inspect
import itertools

import numpy as np
import pytest

from cxc_eccv import registry
from cxc_eccv.judgments.plausible import CategoryMatches, PlausibleHits
from cxc_eccv.metrics.kinds import JudgedMetric, PlausibleMetric, RankMetric, TopMetric
from cxc_eccv.ranking import ranked
from cxc_eccv.ranking.readers import JudgedRows, PlausibleRows, TopRows
from cxc_eccv.runs import RankingsRun, ScoresRun
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import JudgedRanks, Judgments, PositiveRanks, TopK

N_ITEMS = 6
SEEDS = range(12)


def on_random_cases(test):
    """Run a test for every seed, as one test."""

    @functools.wraps(test)
    def run(**arguments):
        for seed in SEEDS:
            test(**arguments, seed=seed)

    parameters = inspect.signature(test).parameters
    run.__signature__ = inspect.Signature([each for name, each in parameters.items() if name != "seed"])
    return run


def metrics_of(kind, **parameters):
    """Each metric of a kind with one small K where it has one."""
    specs = [spec for spec in registry.metrics().values() if isinstance(spec, kind)]
    return [pytest.param(spec, {"k": 2} if spec.parameters else {}, id=spec.name) for spec in specs]


def orders_of(scores):
    """All orders of the items of one query in which scores never rise."""
    levels = [np.flatnonzero(scores == level).tolist() for level in np.unique(scores)[::-1]]
    for parts in itertools.product(*(itertools.permutations(level) for level in levels)):
        yield [item for part in parts for item in part]


def draw(seed):
    """Integer scores of 2 queries for 6 items, and gains of judged items, at least one above 0 of each query."""
    random = np.random.default_rng(seed)
    scores = random.integers(0, 3, (2, N_ITEMS)).astype("float32")
    gains = random.choice([np.nan, 0.0, 1.0], (2, N_ITEMS))
    gains[np.arange(2), random.integers(N_ITEMS, size=2)] = 1.0
    return scores, gains


def make_judgments(gains, *, binary=False):
    rows, columns = np.nonzero(gains > 0 if binary else ~np.isnan(gains))
    values = None if binary else gains[rows, columns]
    return Judgments.from_pairs([0, 1], np.arange(10, 16), rows, columns + 10, gains=values)


def run_of(scores):
    return ranked(ScoresRun(np.arange(2), np.arange(10, 16), scores))


def read(scores, reader):
    run_of(scores).rank_all({}, {"i2t": [reader]})
    return reader.result


def both(result):
    return result, result if result.if_ties_help is None else result.if_ties_help


def check(spec, parameters, found, values_of_orders):
    """The value under the rule is the lowest over all orders, the other the highest, for better and worse."""
    strict, helped = (spec.compute(*each, **parameters) for each in found)
    for query, values in enumerate(values_of_orders):
        worst, best = (min(values), max(values)) if spec.higher_is_better else (max(values), min(values))
        assert strict[query] == pytest.approx(worst)
        assert helped[query] == pytest.approx(best)


@pytest.mark.parametrize(("spec", "parameters"), metrics_of(RankMetric))
@on_random_cases
def test_ranks_span_all_orders_of_ties(spec, parameters, seed):
    scores, gains = draw(seed)
    ranks = run_of(scores).rank(make_judgments(gains, binary=True), "i2t")
    of_orders = []
    for row, gain in zip(scores, gains, strict=True):
        places = [[place for place, item in enumerate(order, 1) if gain[item] > 0] for order in orders_of(row)]
        of_orders.append(
            [spec.compute(PositiveRanks.of([each], n_gallery=N_ITEMS), **parameters)[0] for each in places]
        )
    check(spec, parameters, [(each,) for each in both(ranks)], of_orders)


@pytest.mark.parametrize(("spec", "parameters"), metrics_of(TopMetric))
@on_random_cases
def test_tops_span_all_orders_of_ties(spec, parameters, seed):
    scores, gains = draw(seed)
    if spec.gains == "degrees":
        gains = gains * np.random.default_rng(seed).choice([0.5, 1.0], gains.shape)
    judgments = make_judgments(gains)
    depth = parameters.get("k", int(judgments.n_relevant.max()))
    top = read(scores, TopRows(judgments, depth))
    of_orders = []
    for query, row in enumerate(scores):
        values = []
        for order in orders_of(row):
            ids = np.tile(np.array(order) + 10, (2, 1))[:, :depth]
            values.append(spec.compute(TopK(np.arange(2), ids), judgments, **parameters)[query])
        of_orders.append(values)
    check(spec, parameters, [(each, judgments) for each in both(top)], of_orders)


@pytest.mark.parametrize("spec", [each.values[0] for each in metrics_of(PlausibleMetric)], ids=lambda spec: spec.name)
@on_random_cases
def test_plausible_matches_span_all_orders_of_ties(spec, seed):
    random = np.random.default_rng(seed)
    scores = random.integers(0, 3, (2, N_ITEMS)).astype("float32")
    classes = random.integers(0, 3, N_ITEMS)
    distances = np.abs(np.arange(3)[:, None] - np.arange(3)).astype("uint8") * 2
    query_classes = classes[:2]
    matches = CategoryMatches(np.arange(2), np.arange(10, 16), query_classes, classes, distances)
    hits = read(scores, PlausibleRows(matches, spec.criteria))
    of_orders = []
    for query, row in enumerate(scores):
        values = []
        for order in orders_of(row):
            near = np.array(
                [
                    [distances[query_classes[query], classes[item]] <= zeta for item in order]
                    for zeta, _ in spec.criteria
                ]
            )
            n_matches = near.sum(axis=1)
            depths = [min(n, cut or N_ITEMS) for n, (_, cut) in zip(n_matches, spec.criteria, strict=True)]
            found = np.array([near[place, :depth].sum() for place, depth in enumerate(depths)])
            one = PlausibleHits(np.array([0]), spec.criteria, n_matches[None], found[None], np.array([0]))
            values.append(spec.compute(one)[0])
        of_orders.append(values)
    check(spec, {}, [(each,) for each in both(hits)], of_orders)


@pytest.mark.parametrize(("spec", "parameters"), metrics_of(JudgedMetric))
@on_random_cases
def test_judged_items_stand_in_reverse_order(spec, parameters, seed):
    """Negatives first, then items without a label, then positives; and the other way round."""
    scores, gains = draw(seed)
    ranks = read(scores, JudgedRows(make_judgments(gains)))
    for sign, found in zip((1, -1), both(ranks), strict=True):
        items = []
        for row, gain in zip(scores, gains, strict=True):
            help_order = sign * np.where(np.isnan(gain), 0, np.where(gain > 0, 1, -1))
            order = np.lexsort((help_order, -row))
            places = [(place, int(gain[item])) for place, item in enumerate(order, 1) if not np.isnan(gain[item])]
            items.append(places)
        expected = JudgedRanks.of(items, n_gallery=N_ITEMS)
        np.testing.assert_allclose(spec.compute(found, **parameters), spec.compute(expected, **parameters))


@on_random_cases
def test_cut_lists_reorder_listed_items_alone(seed):
    """Lists of four of six items: the positives of a list take the best places of their ties within it."""
    random = np.random.default_rng(seed)
    items = [10 + random.permutation(6)[:4] for _ in range(2)]
    scores = [np.sort(random.integers(0, 2, 4))[::-1] for _ in range(2)]
    gains = draw(seed)[1]
    lists = RankedLists(np.arange(2), np.array([0, 4, 8]), np.concatenate(items), np.concatenate(scores).astype(float))
    found = ranked(RankingsRun({"i2t": lists})).rank(make_judgments(gains, binary=True), "i2t")
    for sign, ranks in zip((1, -1), both(found), strict=True):
        for query in range(2):
            positive = gains[query, items[query] - 10] > 0
            order = np.lexsort((sign * positive, -scores[query]))
            expected = (np.flatnonzero(positive[order]) + 1).tolist()
            assert ranks.ranks[ranks.indptr[query] : ranks.indptr[query + 1]].tolist() == expected
