"""Bounds over the unjudged: equal to what comes out when every labelling is evaluated by itself."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest

from cxc_eccv.errors import DataError
from cxc_eccv.evaluation.bounds.expected import ask_probabilities, expected_median
from cxc_eccv.evaluation.bounds.extremes import bound_ranks, bound_top
from cxc_eccv.evaluation.bounds.retrieved import read_tops, retrieve
from cxc_eccv.metrics.kinds import HIGHEST_GAIN, RankMetric, TopMetric, Variant
from cxc_eccv.ranking.by_scores import rank_rows
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.registry import metrics
from cxc_eccv.types import Judgments, PositiveRanks

pytestmark = pytest.mark.thorough

RANK_METRICS = [
    (name, parameters)
    for name, spec in metrics().items()
    if isinstance(spec, RankMetric)
    for parameters in ([{"k": 1}, {"k": 3}] if spec.parameters else [{}])
]


@dataclasses.dataclass
class Case:
    """A few queries with their scores, their positives, what else was judged, and probabilities of all pairs."""

    scores: np.ndarray
    positive: np.ndarray
    judged: np.ndarray
    unreachable: np.ndarray
    probabilities: np.ndarray
    folds: tuple[np.ndarray, np.ndarray] | None = None
    ranked: dict[bytes, PositiveRanks] = dataclasses.field(default_factory=dict, init=False)

    @property
    def query_ids(self):
        return 100 + np.arange(len(self.scores))

    @property
    def gallery_ids(self):
        return 10 * (1 + np.arange(self.scores.shape[1]))[::-1]

    def judgments(self, positive=None):
        positive = self.positive if positive is None else positive
        rows, columns = np.nonzero(positive)
        options = {} if self.folds is None else {"query_folds": self.folds[0], "gallery_folds": self.folds[1]}
        extra = self.unreachable[:, None] > np.arange(self.unreachable.max(initial=0))
        lost, number = np.nonzero(extra)
        return Judgments.from_pairs(
            self.query_ids,
            self.gallery_ids,
            np.append(self.query_ids[rows], self.query_ids[lost]),
            np.append(self.gallery_ids[columns], 100_000 + number),
            **options,
        )

    @property
    def known(self):
        rows, columns = np.nonzero(self.judged | self.positive)
        return self.query_ids[rows], self.gallery_ids[columns]

    def rank(self, judgments, readers=()):
        scores = self.scores.astype(np.float32)
        return rank_rows(lambda rows: scores[rows], self.query_ids, self.gallery_ids, {"": judgments}, list(readers))[
            ""
        ]

    def rank_labelled(self, positive):
        """The ranks under a labelling, which is ranked once for all metrics and depths."""
        key = positive.tobytes()
        if key not in self.ranked:
            self.ranked[key] = self.rank(self.judgments(positive))
        return self.ranked[key]

    def retrieved(self, depth):
        judgments = self.judgments()
        tops = read_tops(judgments, self.known, depth)
        return retrieve(judgments, tops, self.rank(judgments, tops))

    def columns(self, ids):
        return np.searchsorted(-self.gallery_ids, -ids)

    def ties_below(self, columns, k):
        """Whether each item of the top ties with an item below its first k that is no known positive."""
        found = np.zeros(columns.shape, bool)
        for (row, place), column in np.ndenumerate(columns):
            below = set(range(self.scores.shape[1])) - set(columns[row, :k].tolist())
            if self.folds is not None:
                below = {item for item in below if self.folds[1][item] == self.folds[0][row]}
            score = self.scores[row, column]
            found[row, place] = any(self.scores[row, item] == score and not self.positive[row, item] for item in below)
        return found


@functools.cache
def draw_case(seed, *, n_items=8, n_queries=2, levels=4, folds=False):
    """Scores of few levels tie; some queries have positives outside the gallery, or none within it."""
    random = np.random.default_rng(seed)
    shape = n_queries, n_items
    positive = random.random(shape) < random.choice([0.1, 0.3])
    unreachable = (random.random(n_queries) < 0.3) | ~positive.any(axis=1)
    parts = (np.arange(n_queries) % 2, np.arange(n_items) % 2) if folds else None
    if folds:
        positive &= parts[0][:, None] == parts[1]
        unreachable |= ~positive.any(axis=1)
    return Case(
        random.integers(levels, size=shape).astype(float) if levels else random.random(shape),
        positive,
        random.random(shape) < 0.2,
        unreachable.astype(int),
        random.choice([0.0, 0.1, 0.5, 0.9, 1.0], size=shape),
        parts,
    )


def labellings(retrieved, open_items):
    """Every way to call some of the open items positive, for all queries at once, as (Q, D) flags."""
    places = np.argwhere(open_items)
    for chosen in itertools.product([False, True], repeat=len(places)):
        labels = np.zeros_like(open_items)
        labels[tuple(places[list(chosen)].T)] = True
        yield labels


def evaluate_labellings(case, retrieved, open_items, function):
    """(L, Q) values of all labellings, each evaluated from the scores, and their (L,) probabilities."""
    values = []
    chances = []
    columns = case.columns(retrieved.ids)
    rows = np.arange(len(columns))[:, None]
    p = case.probabilities[rows, columns]
    for labels in labellings(retrieved, open_items):
        positive = case.positive.copy()
        positive[np.nonzero(labels)[0], columns[labels]] = True
        values.append(function(case.rank_labelled(positive)))
        chances.append(np.prod(np.where(labels, p, 1 - p)[open_items]))
    return np.array(values), np.array(chances)


def extremes_of_every_labelling(case, function, most):
    """(Q,) lowest and highest values over all labels of any unjudged items of the gallery, at most so many a query."""
    open_items = ~(case.judged | case.positive)
    if case.folds is not None:
        open_items &= case.folds[0][:, None] == case.folds[1]
    values = []
    for chosen in itertools.product([False, True], repeat=open_items.shape[1]):
        labels = open_items & np.array(chosen)
        allowed = labels.sum(axis=1) <= most
        labels &= allowed[:, None]  # a query with too many keeps its labels as they are
        values.append(function(case.rank_labelled(case.positive | labels)))
    return np.min(values, axis=0), np.max(values, axis=0)


def check_case(case, name, parameters, depth):
    retrieved = case.retrieved(depth)
    spec = metrics()[name]
    k = parameters.get("k", depth)
    open_items = retrieved.unjudged & (np.arange(retrieved.ids.shape[1]) < k)
    columns = case.columns(retrieved.ids)
    labelled_items = open_items & ~case.ties_below(columns, min(k, columns.shape[1]))
    known = (case.judged | case.positive)[np.arange(len(columns))[:, None], columns]
    np.testing.assert_array_equal(retrieved.unjudged, ~known)

    def score(ranks):
        return spec.function(ranks, **parameters)

    def average(values):
        return spec.average(values, None if case.folds is None else case.folds[0])

    values, chances = evaluate_labellings(case, retrieved, labelled_items, score)
    p = case.probabilities[np.arange(len(columns))[:, None], columns]
    bounds = bound_ranks(Variant(spec, parameters), retrieved, p)
    low, high = extremes_of_every_labelling(case, score, case.scores.shape[1] if spec.best_rank else depth)
    low = average(low)
    high = average(high)
    assert bounds.low <= low + 1e-12
    assert bounds.high >= high - 1e-12
    if "k" in parameters or (depth >= case.scores.shape[1] and len(np.unique(case.scores)) == case.scores.size):
        assert (bounds.low, bounds.high) == pytest.approx((low, high), abs=1e-12)
    assert bounds.expected == pytest.approx(chances @ [average(row) for row in values], abs=1e-9)
    assert (bounds.unjudged, bounds.retrieved) == (open_items.sum(), open_items[:, :k].size)
    usual = average(spec.function(retrieved.ranks, **parameters))
    assert bounds.low <= usual <= bounds.high
    assert bounds.low <= bounds.expected + 1e-12 <= bounds.high + 2e-12


@pytest.mark.parametrize(
    ("name", "parameters"), RANK_METRICS, ids=[f"{name}{list(p.values())}" for name, p in RANK_METRICS]
)
@pytest.mark.parametrize("levels", [0, 1, 2, 4], ids=["no ties", "all tied", "2 scores", "4 scores"])
def test_bounds_of_ranks_are_those_of_all_labellings(name, parameters, levels):
    """Low, high and expected value, against the evaluation of each labelling from the scores themselves."""
    for seed in range(3):
        check_case(draw_case(seed, n_items=7, levels=levels), name, parameters, depth=4)
        check_case(draw_case(seed, n_items=6, levels=levels), name, parameters, depth=6)


@pytest.mark.parametrize("name", ["recall_at_k", "median_rank", "map_at_r"])
def test_folds_have_tops_of_their_own(name):
    for seed in range(4):
        check_case(draw_case(seed, n_items=6, n_queries=4, folds=True, levels=3), name, {}, depth=2)


def test_positives_of_another_fold_are_not_unjudged():
    scores = np.array([[4.0, 3, 2, 1], [1, 2, 3, 4]])
    positive = np.zeros((2, 4), bool)
    positive[0, 1] = positive[1, 3] = True  # of the first query in the other fold alone
    folds = np.array([0, 1]), np.array([0, 1, 0, 1])
    case = Case(scores, positive, np.zeros((2, 4), bool), np.zeros(2, int), np.full((2, 4), 0.5), folds)
    retrieved = case.retrieved(2)
    assert retrieved.unjudged.tolist() == [[True, True], [False, True]]
    assert retrieved.ranks.best.tolist() == [3, 1]


@pytest.mark.parametrize("scores", [[5, 5, 5, 5, 5], [7, 7, 7, 5, 5], [7, 7, 5, 5, 5]])
def test_fold_of_any_size_keeps_its_ties(scores):
    """The first fold has five items and the second three: of the top four three are read, and the tie goes on below."""
    every = np.array([[*scores, 9, 9, 9], [9.0] * 5 + [5, 4, 3]])
    positive = np.zeros((2, 8), bool)
    positive[1, 5] = True
    folds = np.array([0, 1]), np.array([0] * 5 + [1] * 3)
    case = Case(every, positive, np.zeros((2, 8), bool), np.array([1, 0]), np.full((2, 8), 0.5), folds)
    assert case.retrieved(4).ids.shape == (2, 3)
    check_case(case, "mrr", {}, depth=4)


@pytest.mark.parametrize("levels", [0, 2, 4])
def test_label_matters_where_it_changes_the_best_rank(levels):
    for seed in range(5):
        retrieved = draw_case(seed, levels=levels).retrieved(5)
        for row, place in np.ndindex(retrieved.ids.shape):
            alone = np.zeros_like(retrieved.unjudged)
            alone[row, place] = True
            changes = retrieved.unjudged[row, place] and retrieved.best(alone)[row] < retrieved.ranks.best[row]
            assert retrieved.matters(Variant(metrics()["mrr"], {}))[row, place] == changes
        every = retrieved.matters(Variant(metrics()["map_at_r"], {}))
        assert every.tolist() == retrieved.unjudged.tolist()


def test_a_query_is_not_in_its_own_top():
    scores = np.array([[9.0, 5, 1], [5, 9, 3], [1, 3, 9]])
    ids = np.array([1, 2, 3])
    judgments = Judgments.from_pairs(ids, ids, [1, 2, 3], [3, 3, 2], without_self=True)
    tops = read_tops(judgments, (ids[:0], ids[:0]), 50)
    ranks = rank_rows(lambda rows: scores[rows], ids, ids, {"": judgments}, tops)[""]
    retrieved = retrieve(judgments, tops, ranks)
    assert retrieved.ids.tolist() == [[2, 3], [1, 3], [2, 1]]
    assert retrieved.unjudged.tolist() == [[True, False], [True, False], [False, True]]


def test_items_tied_across_the_cut_may_be_positive():
    """All score alike: labels of the top alone leave them last but for the known one, labels of all give rank 1."""
    case = Case(np.zeros((1, 9)), np.eye(1, 9, dtype=bool), np.zeros((1, 9), bool), np.zeros(1, int), np.ones((1, 9)))
    retrieved = case.retrieved(3)
    assert retrieved.places(retrieved.unjudged).tolist() == [[6, 7, 8]]
    bounds = bound_ranks(Variant(metrics()["recall_at_k"], {"k": 3}), retrieved)
    assert (bounds.low, bounds.high, bounds.unjudged) == (0, 1, 3)


@pytest.mark.parametrize(("name", "parameters"), [("recall_at_k", {"k": 4}), ("mrr", {}), ("map_at_r", {})])
def test_expected_value_does_not_depend_on_ids(name, parameters):
    """Four items tie, not all of which are retrieved; the others count as wrong. Every seventh of 720 orders."""
    scores = np.array([[9.0, 5, 5, 5, 5, 1]])
    positive = np.eye(1, 6, 5, dtype=bool)
    probabilities = np.array([[0.2, 0.1, 0.9, 0.5, 0.8, 0.0]])
    expected = set()
    for order in itertools.islice(itertools.permutations(range(6)), 0, None, 7):
        own = (array[:, list(order)] for array in (scores, positive, np.zeros((1, 6), bool)))
        case = Case(*own, np.zeros(1, int), probabilities[:, list(order)])
        retrieved = case.retrieved(parameters.get("k", 3))
        p = case.probabilities[[[0]], case.columns(retrieved.ids)]
        expected.add(round(bound_ranks(Variant(metrics()[name], parameters), retrieved, p).expected, 12))
    assert len(expected) == 1


def draw_graded(seed, spec, n_queries=2, n_items=8, depth=5, levels=3):
    random = np.random.default_rng(seed)
    kinds = {"labels": [0.0, 1.0], "ratings": [0.0, 1.5, 3.0, 5.0], "degrees": [0.0, 0.25, 0.5, 1.0]}[spec.gains]
    judged = random.random((n_queries, n_items)) < 0.5
    gains = np.where(judged, random.choice(kinds, size=judged.shape), 0.0)
    judged[:, 0], gains[:, 0] = True, 1.0
    rows, columns = np.nonzero(judged)
    queries = np.arange(n_queries)
    gallery = 10 + np.arange(n_items)
    judgments = Judgments.from_pairs(queries, gallery, rows, 10 + columns, gains=gains[judged])
    scores = random.integers(levels, size=judged.shape).astype(np.float32)
    reader = TopRows(judgments, depth)
    rank_rows(lambda some: scores[some], queries, gallery, {}, [reader])
    return judgments, judged, gains, reader.result, random.choice([0.0, 0.2, 0.7, 1.0], size=judged.shape)


@pytest.mark.parametrize("name", [name for name, spec in metrics().items() if isinstance(spec, TopMetric)])
def test_expected_value_of_top_ignores_ids(name):
    """Of two items that tie for the second place one is below, and counts as wrong."""
    spec = metrics()[name]
    scores = [9.0, 5, 5, 1]
    chances = [0.2, 0.1, 0.9, 0.0]
    expected = set()
    for order in map(list, itertools.permutations(range(4))):
        judgments = Judgments.from_pairs([1], 10 + np.arange(4), [1], [10 + order.index(3)], gains=[1.0])
        own = np.array([scores])[:, order].astype(np.float32)
        reader = TopRows(judgments, 4)
        rank_rows(lambda rows, own=own: own[rows], judgments.query_ids, judgments.gallery_ids, {}, [reader])
        p = np.array(chances)[order][reader.result.ids - 10]
        variant = Variant(spec, {"k": 2} if spec.parameters else {})
        expected.add(round(bound_top(variant, reader.result, judgments, 2, p).expected, 12))
    assert len(expected) == 1


def score_labelled(spec, parameters, top, judgments, judged, gains, labels, new):
    """(Q,) values with the labels added at one gain."""
    rows, items = np.nonzero(judged | labels)
    values = np.where(labels, new, gains)[rows, items]
    labelled = Judgments.from_pairs(judgments.query_ids, judgments.gallery_ids, rows, 10 + items, gains=values)
    return spec.function(top, labelled, **parameters)


@pytest.mark.parametrize("name", [name for name, spec in metrics().items() if isinstance(spec, TopMetric)])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_bounds_of_top_metrics_cover_all_labellings(name, k):
    """A metric at R has no K: so many items are retrieved, and it looks at R more once all of them have labels."""
    spec = metrics()[name]
    gain = HIGHEST_GAIN[spec.gains]
    own_k = {"k": k} if spec.parameters else {}
    others = (0.5, 1e-300) if spec.gains == "degrees" else ()
    for seed in range(4):
        judgments, judged, gains, top, p = draw_graded(seed, spec, depth=5 if own_k else 8)
        columns = top.ids[:, :k] - 10
        rows = np.arange(len(columns))[:, None]
        unjudged = ~judged[rows, columns]
        score = functools.partial(score_labelled, spec, own_k, top, judgments, judged, gains)
        expected = 0.0
        last = top.scores[:, k - 1 : k]
        below = (
            top.cut > 0
            if k == top.depth
            else (top.scores[:, k] == last[:, 0]) & ~judged[rows[:, 0], top.ids[:, k] - 10]
        )
        certain = unjudged & ~(below[:, None] & (top.scores[:, :k] == last))
        for flags in labellings(top, certain):
            labels = np.zeros_like(judged)
            labels[np.nonzero(flags)[0], columns[flags]] = True
            chance = np.prod(np.where(flags, p[rows, columns], 1 - p[rows, columns])[certain])
            expected += chance * score(labels, gain).mean()
        every = []
        for chosen in itertools.product([False, True], repeat=judged.shape[1]):
            labels = ~judged & np.array(chosen)
            labels &= labels.sum(axis=1, keepdims=True) <= k
            every += [score(labels, new) for new in (gain, *others)]
        bounds = bound_top(Variant(spec, own_k), top, judgments, k, p[rows, top.ids - 10])
        assert bounds.low == pytest.approx(np.min(every, axis=0).mean(), abs=1e-12)
        if spec.highest is None:
            assert bounds.high == pytest.approx(np.max(every, axis=0).mean(), abs=1e-12)
        assert bounds.expected == pytest.approx(expected, abs=1e-12)
        assert (bounds.unjudged, bounds.retrieved) == (unjudged.sum(), unjudged.size)
        assert bounds.low <= spec.function(top, judgments, **own_k).mean() <= bounds.high


@pytest.mark.parametrize("k", [1, 3, 4])
def test_bounds_of_ndcg_are_those_of_all_ratings(k):
    spec = metrics()["ndcg_at_k"]
    discounts = 1 / np.log2(np.arange(2, k + 2))
    for seed in range(12):
        judgments, judged, gains, top, _ = draw_graded(seed, spec, n_queries=1, n_items=6, depth=k)
        columns = top.ids[0] - 10
        unjudged = np.flatnonzero(~judged[0])
        values = []
        for ratings in itertools.product([0, 0.5, 1.5, 3, 4, 5], repeat=unjudged.size):
            rated = gains[0].copy()
            rated[unjudged] = ratings
            values.append(rated[columns] @ discounts / (np.sort(rated)[::-1][:k] @ discounts))
        bounds = bound_top(Variant(spec, {"k": k}), top, judgments, k)
        assert (bounds.low, bounds.high) == pytest.approx((min(values), max(values)), abs=1e-12)


def test_expected_median_equals_simulation():
    random = np.random.default_rng(1)
    values = np.sort(random.integers(1, 40, size=(301, 6)), axis=1).astype(float)
    weights = random.dirichlet(np.ones(6), size=301)
    drawn = (random.random((4000, 301, 1)) > np.cumsum(weights, axis=1)[None, :, :-1]).sum(axis=2)
    simulated = np.median(np.take_along_axis(values[None], drawn[..., None], axis=2)[..., 0], axis=1)
    assert expected_median(values, weights) == pytest.approx(simulated.mean(), abs=5 * simulated.std() / 4000**0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([0.5]), "need a number from 0 to 1 for each"),
        (np.array(["a", "b"]), "need a number from 0 to 1 for each"),
        (np.array([0.5, np.nan]), r"row 1 \(image 1, caption 8\): found nan, expected a number from 0 to 1"),
        (np.array([0.5, 1.5]), r"row 1 \(image 1, caption 8\): found 1.5, expected a number from 0 to 1"),
    ],
)
def test_probabilities_are_checked(given, message):
    flags = np.array([[True, True]])
    with pytest.raises(DataError, match=message):
        ask_probabilities(lambda *_: given, "i2t", np.array([1]), np.array([[7, 8]]), flags)


def test_probabilities_are_asked_with_images_and_captions_apart():
    flags = np.array([[True, False], [True, True]])
    asked = []
    for direction in ("i2t", "t2i"):
        ask_probabilities(
            lambda images, captions: asked.append((images.tolist(), captions.tolist())) or np.ones(images.size),
            direction,
            np.array([1, 2]),
            np.array([[7, 8], [9, 7]]),
            flags,
        )
    assert asked == [([1, 2, 2], [7, 9, 7]), ([7, 9, 7], [1, 2, 2])]
