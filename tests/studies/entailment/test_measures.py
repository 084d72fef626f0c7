"""Measures, threshold, calibration and rule of mining, against slow loops, scikit-learn and the entailment paper."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.statistics import Draws
from cxc_eccv.studies.entailment.measures import (
    RATES,
    average_precision,
    choose_threshold,
    f_half,
    fit_calibration,
    fit_logistic,
    measure_classifier,
    measure_reliability,
    precision_of_best,
)
from cxc_eccv.studies.entailment.mining_rule import fit_rule, table_of_rule
from cxc_eccv.tables import tables_to_markdown

TABLE_3 = {
    "Only TE": (71.1, 65.0, 90.9, 68.9),
    "Only VE": (72.3, 66.9, 87.5, 70.2),
    "OFA": (73.3, 67.4, 89.6, 70.9),
    "Ours": (78.1, 80.2, 74.3, 78.9),
    "w/o Image Masking": (78.4, 77.7, 79.4, 78.0),
    "w/o VE Data": (66.4, 62.5, 81.9, 65.6),
    "w/o TE Data": (77.7, 74.2, 84.6, 76.1),
    "w/o BERT": (76.5, 72.4, 85.1, 74.6),
}
"""Row to accuracy, precision, recall, F0.5 in percent, as printed."""


@pytest.mark.reference
@pytest.mark.parametrize("row", TABLE_3)
def test_f_half_is_that_of_table_3(row):
    _, precision, recall, printed = TABLE_3[row]
    assert round(100 * float(f_half(precision / 100, recall / 100)), 1) == printed


def test_the_docs_have_every_row_of_table_3():
    page = (Path(__file__).parents[3] / "docs" / "entailment.md").read_text(encoding="utf-8")
    for row, numbers in TABLE_3.items():
        assert f"| {row} | {' | '.join(map(str, numbers))} |" in page, row


def rates_by_hand(labels, said):
    tp = sum(1 for label, yes in zip(labels, said, strict=True) if yes and label == 1)
    fp = sum(1 for label, yes in zip(labels, said, strict=True) if yes and label == 0)
    fn = sum(1 for label, yes in zip(labels, said, strict=True) if not yes and label == 1)
    precision = tp / (tp + fp) if tp + fp else math.nan
    recall = tp / (tp + fn) if tp + fn else math.nan
    below = 0.25 * precision + recall
    return {
        "accuracy": (len(labels) - fp - fn) / len(labels),
        "precision": precision,
        "recall": recall,
        "f_half": math.nan if math.isnan(below) else 1.25 * precision * recall / below if below else 0.0,
    }


pairs_of_few_scores = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([0.1, 0.2, 0.5, 0.5000001, 0.9])), min_size=2
)


@given(pairs_of_few_scores, st.sampled_from([0.1, 0.2, 0.5, 0.9]))
def test_rates_equal_a_loop_over_pairs(pairs, threshold):
    labels, scores = (list(column) for column in zip(*pairs, strict=True))
    expected = rates_by_hand(labels, [score >= threshold for score in scores])
    if any(map(math.isnan, expected.values())):
        with pytest.raises((DataError, InvalidOption)):
            measure_classifier(labels, scores, threshold)
        return
    found = {rate.name: rate.value for rate in measure_classifier(labels, scores, threshold)}
    assert found == pytest.approx(expected, abs=1e-12)
    assert tuple(found) == RATES


def test_intervals_draw_images_with_all_their_pairs():
    rng = np.random.default_rng(1)
    images = np.repeat([f"coco/{number}" for number in range(30)], 4)
    labels = rng.integers(0, 2, images.size)
    scores = rng.random(images.size).round(2)
    times = Draws(5, 1_000).times(30)
    names = np.unique(images)
    samples = {name: [] for name in RATES}
    for row in times[:, : names.size].tolist():
        rows = [
            place for name, often in zip(names, row, strict=True) for place in [*np.flatnonzero(images == name)] * often
        ]
        drawn = rates_by_hand(labels[rows].tolist(), (scores[rows] >= 0.6).tolist())
        for name, value in drawn.items():
            samples[name].append(value)
    for rate in measure_classifier(labels, scores, 0.6, images, seed=5):
        expected = np.nanquantile(samples[rate.name], [0.025, 0.975])
        assert (rate.low, rate.high) == pytest.approx(tuple(expected), abs=1e-12), rate.name
    apart = measure_classifier(labels, scores, 0.6, np.arange(images.size), seed=5)
    assert measure_classifier(labels, scores, 0.6, seed=5) == apart


@given(pairs_of_few_scores, st.sampled_from(["f_half", "accuracy", 0.5, 0.75, 0.9, 1.0]))
@settings(deadline=None)
def test_chosen_threshold_beats_all_distinct_scores(pairs, wanted):
    """Where a precision is asked for, it has the best recall of those that reach it."""
    labels, scores = (list(column) for column in zip(*pairs, strict=True))
    if not any(labels):
        return
    tried = {value: rates_by_hand(labels, [score >= value for score in scores]) for value in sorted(set(scores))}
    if isinstance(wanted, str):
        best = max(tried, key=lambda value: (round(tried[value][wanted], 12), value))
        assert choose_threshold(scores, labels, for_=wanted) == best
        return
    enough = {value: rates for value, rates in tried.items() if rates["precision"] >= wanted}
    if not enough:
        with pytest.raises(InvalidOption, match="no threshold reaches"):
            choose_threshold(scores, labels, precision=wanted)
        return
    best = max(enough, key=lambda value: (enough[value]["recall"], value))
    assert choose_threshold(scores, labels, precision=wanted) == best


def test_threshold_never_splits_equal_scores():
    """The best cut of the sorted list would be inside the run of 0.7, which predictions cannot part."""
    assert choose_threshold([0.9, 0.7, 0.7, 0.7, 0.1], [1, 1, 0, 0, 1], for_="accuracy") == 0.9


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([-3.0, -1.0, 0.0, 0.5, 1.0, 4.0], [0, 0, 1, 0, 1, 1]),
        ([100.0, 101.0, 102.0, 103.0], [0, 1, 0, 1]),
        ([1e-4, 2e-4, 3e-4, 9e-4, 1e-3], [0, 1, 0, 1, 1]),
    ],
)
def test_calibration_equals_the_minimum_of_slow_search(scores, labels):
    scale, offset = fit_calibration(scores, labels)
    positives = sum(labels)
    targets = [(positives + 1) / (positives + 2) if label else 1 / (len(labels) - positives + 2) for label in labels]

    def loss(a, b):
        logits = [a * score + b for score in scores]
        return sum(
            math.log1p(math.exp(-z)) * t + math.log1p(math.exp(z)) * (1 - t)
            for z, t in zip(logits, targets, strict=True)
        )

    best = loss(scale, offset)
    spread = float(np.std(scores))
    centre = float(np.mean(scores))
    for turn in (-1e-3, -1e-4, 1e-4, 1e-3):  # around the middle of the scores, where scale and offset do not mix
        a = scale + turn / spread
        assert loss(a, offset - turn / spread * centre) > best
        assert loss(scale, offset + turn) > best


def test_calibration_stays_finite_on_separable_scores():
    scale, offset = fit_calibration([-1.0, -0.9, 0.9, 1.0], [0, 0, 1, 1])
    assert 0 < scale < 100
    assert abs(offset) < 1e-6


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.3000001, 0.6, 0.7, 0.95, 1.0])), min_size=1
    )
)
@settings(deadline=None)
def test_reliability_is_that_of_a_loop_over_bins(pairs):
    labels, scores = (list(column) for column in zip(*pairs, strict=True))
    if not any(labels):
        return
    found = measure_reliability(labels, scores)
    edges = [*(place / 10 for place in range(10)), np.inf]
    error = 0.0
    rows = iter(found.bins)
    for low, high in itertools.pairwise(edges):
        inside = [pair for pair in pairs if low <= pair[1] < high]
        if inside:
            row, (share, probability) = next(rows), np.mean(inside, axis=0)
            assert (row.low, row.pairs) == (low, len(inside))
            assert (row.probability, row.share) == pytest.approx((probability, share))
            assert row.share_low <= row.share <= row.share_high
            error += len(inside) / len(labels) * abs(probability - share)
    assert next(rows, None) is None
    assert found.expected_error == pytest.approx(error)


def test_sample_without_prediction_has_no_precision():
    """One pair of five is predicted, and rightly: samples without it count for accuracy and recall alone."""
    rates = {rate.name: rate for rate in measure_classifier([1, 0, 0, 0, 0], [0.9, 0.1, 0.1, 0.1, 0.1], 0.5)}
    assert (rates["precision"].low, rates["f_half"].low) == (1, 1)
    assert np.isnan(f_half(np.nan, 0.5))
    assert f_half(0, 0) == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: measure_classifier([1, 0], [0.5, 0.6], 0.9), InvalidOption, r"reaches the threshold 0\.9, .* is 0\.6"),
        (lambda: choose_threshold([0.5, 0.6], [1, 0], for_="f_hal"), UnknownName, "did you mean 'f_half'"),
        (lambda: choose_threshold([0.5, 0.6], [1, 0], precision=90), InvalidOption, "give a fraction"),
        (lambda: measure_reliability([1, 0], [0.5, 1.5]), DataError, r"probability 1\.5 of pair 1"),
        (lambda: fit_calibration([0.1, 0.2], [1, 1]), DataError, "all 2 pairs are labelled 1"),
        (lambda: fit_calibration([0.1, 0.2], [0, 0]), DataError, "none of 2 pairs is labelled 1"),
        (lambda: fit_calibration([0.5, 0.5], [0, 1]), DataError, "all 2 scores are 0.5"),
        (lambda: fit_calibration([0.9, 0.1], [0, 1]), DataError, "do not score higher"),
        (lambda: fit_calibration([0.9, math.nan], [0, 1]), DataError, "score nan of pair 1"),
        (lambda: fit_calibration([0.9], [0, 1]), DataError, "give one of each for every pair"),
        (lambda: fit_calibration([], []), DataError, "give one of each for every pair"),
    ],
)
def test_what_gives_no_number_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("label", [2, -1, 0.5, "1", None])
def test_labels_outside_0_and_1_give_no_number(label):
    for call in (
        lambda labels, scores: measure_classifier(labels, scores, 0.5),
        lambda labels, scores: choose_threshold(scores, labels),
        measure_reliability,
        lambda labels, scores: fit_calibration(scores, labels),
    ):
        with pytest.raises(DataError, match="label"):
            call([1, label], [0.5, 0.6])


def lists_of(images=40, depth=60, seed=0, weights=(0.7, 1.3, 0.3)):
    """Probabilities, ranks, labels and images of whole lists, where the truth follows a known rule."""
    random = np.random.default_rng(seed)
    logits = random.normal(0.5, 2, images * depth)
    ranks = np.tile(np.arange(1, depth + 1), images)
    odds = weights[0] * logits - weights[1] * np.log(ranks) + weights[2]
    labels = (random.random(odds.size) < 1 / (1 + np.exp(-odds))).astype(int)
    return 1 / (1 + np.exp(-logits)), ranks, labels, np.repeat(np.arange(images), depth)


@pytest.fixture(scope="module")
def lists():
    return lists_of()


def test_rule_recovers_the_weights_behind_labels(lists):
    rule = fit_rule(*lists_of(images=400)).rule
    assert (rule.logit, rule.log_rank, rule.offset) == pytest.approx((0.7, 1.3, 0.3), abs=0.12)
    fitted = fit_rule(*lists)
    precisions = dict(fitted.average_precision)
    assert precisions.pop("both") > max(precisions.values()) + 0.1
    assert fitted.kept_precision["both"] > fitted.kept_precision["rank"] > fitted.kept_precision["classifier"]


def test_probabilities_mean_the_share_of_lists(lists):
    scores, ranks, labels, _ = lists
    rule = fit_rule(*lists).rule
    assert rule.probabilities(scores, ranks).mean() == pytest.approx(labels.mean(), abs=0.005)
    # Labelled pairs that were chosen by their labels have another share; given the lists', the rule is the same.
    few = labels.astype(bool) | (np.random.default_rng(1).random(labels.size) < labels.mean())
    chosen = fit_rule(*(column[few] for column in lists), share=labels.mean(), precision=0.5)
    assert labels[few].mean() > 0.4
    assert chosen.rule.probabilities(scores, ranks).mean() == pytest.approx(labels.mean(), abs=0.01)
    kept = chosen.rule.probabilities(scores, ranks) >= chosen.threshold
    assert labels[kept].mean() == pytest.approx(0.5, abs=0.06)


def test_each_pair_is_judged_by_other_images_rule():
    scores, ranks, labels, images = lists_of(images=10, depth=5)
    labels = np.random.default_rng(3).integers(0, 2, labels.size)  # nothing to learn
    fitted = fit_rule(scores, ranks, labels, images)
    whole = average_precision(labels, fitted.rule.probabilities(scores, ranks))
    assert fitted.average_precision["both"] < whole


def test_a_weight_is_never_below_0(lists):
    scores, ranks, labels, images = lists
    upside_down = fit_rule(1 - scores, ranks, labels, images).rule
    assert upside_down.logit == 0 < upside_down.log_rank
    with pytest.raises(DataError, match="neither higher probabilities nor better ranks"):
        fit_rule(1 - scores, 61 - ranks, labels, images)


def test_a_certain_classifier_has_a_finite_logit():
    rule = fit_rule([1, 0, 1, 0, 0.9, 0.1], [1, 2, 1, 2, 3, 3], [1, 0, 1, 0, 1, 0], [1, 1, 2, 2, 3, 3]).rule
    assert np.isfinite(rule.probabilities([0, 1], [1, 1])).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranks": np.ones(2400)}, "the rank is the same for all 2400 labelled pairs"),
        ({"scores": np.full(2400, 0.3)}, "the probability of the classifier is the same"),
        ({"labels": np.ones(2400, int)}, "all 2400 pairs are labelled 1"),
        ({"images": np.zeros(2400)}, "^1 of 1 labelled images"),
        ({"labels": np.zeros(2400, int)}, "none of 2,400 pairs is labelled 1|^0 of 40 labelled images"),
    ],
)
def test_labels_that_allow_no_rule_are_refused(lists, change, message):
    names = ("scores", "ranks", "labels", "images")
    with pytest.raises(DataError, match=message):
        fit_rule(**(dict(zip(names, lists, strict=True)) | change))


def test_average_precision_equals_scikit_learn_with_ties():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 200)
    scores = random.integers(0, 20, 200)
    assert average_precision(labels, scores) == pytest.approx(metrics.average_precision_score(labels, scores))
    drawn = [labels[np.lexsort([random.random(200), -scores])[:37]].mean() for _ in range(4000)]
    assert precision_of_best(labels, scores, 37) == pytest.approx(np.mean(drawn), abs=0.005)
    # A share of 10% is that of labels among which every negative stands 9 times as often.
    often = np.where(labels == 1, 1, 9 * labels.sum() / (200 - labels.sum()))
    weighted = metrics.average_precision_score(labels, scores, sample_weight=often)
    assert average_precision(labels, scores, share=0.1) == pytest.approx(weighted)
    assert choose_threshold([0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0], precision=0.6) == 0.7
    assert choose_threshold([0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0], precision=0.6, share=0.1) == 0.9


def test_logistic_fit_equals_scikit_learn(lists):
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    scores, ranks, labels, _ = lists
    features = [np.log(scores / (1 - scores)), -np.log(ranks)]
    expected = linear.LogisticRegression(C=np.inf, tol=1e-10).fit(np.stack(features, axis=1), labels)
    weights, offset = fit_logistic(features, labels)
    # Platt's targets are not quite 0 and 1.
    assert [*weights, offset] == pytest.approx([*expected.coef_[0], *expected.intercept_], abs=0.02)


def test_table_shows_rank_alone_beside_the_rule(lists):
    for threshold in (None, 1.0):
        fitted = fit_rule(*lists, threshold=threshold)
        shown = tables_to_markdown([table_of_rule(fitted.facts() | {"labelled": "pairs.csv"})])
        assert f"| Rank alone | {100 * fitted.average_precision['rank']:.1f} |" in shown
        assert f"Precision of the best {fitted.kept:,}" in shown
