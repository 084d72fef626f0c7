"""A classifier's measures, threshold and calibration, against slow loops over pairs and the entailment paper."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.statistics import Draws
from cxc_eccv.studies.entailment.measures import (
    RATES,
    choose_threshold,
    f_half,
    fit_calibration,
    measure_classifier,
    measure_reliability,
)

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

PAIRS, ENTAILED = 2_000, 1_006
"""The annotated test set, Table 1: 699 of Flickr30K and 307 of MSCOCO entail."""


@pytest.mark.reference
@pytest.mark.parametrize("row", TABLE_3)
def test_table_3_has_the_f_half_but_not_the_accuracy_of_its_precision_and_recall(row: str) -> None:
    """Every count of hits and false alarms that gives the printed precision and recall gives a lower accuracy."""
    accuracy, precision, recall, printed = TABLE_3[row]
    assert round(100 * float(f_half(precision / 100, recall / 100)), 1) == printed
    hits = [tp for tp in range(ENTAILED + 1) if round(100 * tp / ENTAILED, 1) == recall]
    possible = [
        round(100 * (tp + PAIRS - ENTAILED - fp) / PAIRS, 2)
        for tp in hits
        for fp in range(PAIRS - ENTAILED + 1)
        if tp + fp and round(100 * tp / (tp + fp), 1) == precision
    ]
    assert possible
    assert 0.2 <= round(accuracy - max(possible), 2) <= round(accuracy - min(possible), 2) <= 0.4


def test_the_docs_have_every_row_of_table_3() -> None:
    page = (Path(__file__).parents[3] / "docs" / "entailment.md").read_text(encoding="utf-8")
    for row, numbers in TABLE_3.items():
        assert f"| {row} | {' | '.join(map(str, numbers))} |" in page, row


def rates_by_hand(labels: list[int], said: list[bool]) -> dict[str, float]:
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
def test_measures_are_those_of_a_loop_over_the_pairs(pairs: list[tuple[int, float]], threshold: float) -> None:
    labels, scores = (list(column) for column in zip(*pairs, strict=True))
    expected = rates_by_hand(labels, [score >= threshold for score in scores])
    if any(map(math.isnan, expected.values())):
        with pytest.raises((DataError, InvalidOption)):
            measure_classifier(labels, scores, threshold)
        return
    found = {rate.name: rate.value for rate in measure_classifier(labels, scores, threshold)}
    assert found == pytest.approx(expected, abs=1e-12)
    assert tuple(found) == RATES


def test_intervals_draw_images_with_all_their_pairs() -> None:
    rng = np.random.default_rng(1)
    images = np.repeat([f"coco/{number}" for number in range(30)], 4)
    labels, scores = rng.integers(0, 2, images.size), rng.random(images.size).round(2)
    times = Draws(5, 1_000).times(30)
    names = np.unique(images)
    samples: dict[str, list[float]] = {name: [] for name in RATES}
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
def test_the_threshold_is_the_best_of_all_distinct_scores(pairs: list[tuple[int, float]], wanted: str | float) -> None:
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


def test_a_threshold_never_parts_equal_scores_and_is_the_highest_of_equally_good_ones() -> None:
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
def test_calibration_is_the_minimum_that_a_slow_search_finds(scores: list[float], labels: list[int]) -> None:
    scale, offset = fit_calibration(scores, labels)
    positives = sum(labels)
    targets = [(positives + 1) / (positives + 2) if label else 1 / (len(labels) - positives + 2) for label in labels]

    def loss(a: float, b: float) -> float:
        logits = [a * score + b for score in scores]
        return sum(
            math.log1p(math.exp(-z)) * t + math.log1p(math.exp(z)) * (1 - t)
            for z, t in zip(logits, targets, strict=True)
        )

    best, spread, centre = loss(scale, offset), float(np.std(scores)), float(np.mean(scores))
    for turn in (-1e-3, -1e-4, 1e-4, 1e-3):  # around the middle of the scores, where scale and offset do not mix
        a = scale + turn / spread
        assert loss(a, offset - turn / spread * centre) > best
        assert loss(scale, offset + turn) > best


def test_calibration_keeps_the_order_and_is_finite_where_scores_part_the_labels() -> None:
    scale, offset = fit_calibration([-1.0, -0.9, 0.9, 1.0], [0, 0, 1, 1])
    assert 0 < scale < 100
    assert abs(offset) < 1e-6


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.3000001, 0.6, 0.7, 0.95, 1.0])), min_size=1
    )
)
@settings(deadline=None)
def test_reliability_is_that_of_a_loop_over_bins(pairs: list[tuple[int, float]]) -> None:
    labels, scores = (list(column) for column in zip(*pairs, strict=True))
    if not any(labels):
        return
    found = measure_reliability(labels, scores)
    edges, error, rows = [place / 10 for place in range(11)], 0.0, iter(found.bins)
    for place in range(10):
        own = [
            (label, score)
            for label, score in zip(labels, scores, strict=True)
            if edges[place] <= score < edges[place + 1] or (place == 9 and score == 1)
        ]
        if own:
            row = next(rows)
            probability, share = (
                sum(column) / len(own) for column in ([s for _, s in own], [label for label, _ in own])
            )
            assert (row.pairs, row.probability, row.share) == (
                len(own),
                pytest.approx(probability),
                pytest.approx(share),
            )
            assert row.share_low <= row.share <= row.share_high
            error += len(own) / len(labels) * abs(probability - share)
    assert next(rows, None) is None
    assert found.expected_error == pytest.approx(error)


def test_a_probability_of_one_decimal_begins_its_bin() -> None:
    """As a table of rounded probabilities has them, each in the bin that is named after it."""
    found = measure_reliability([1] * 10, [place / 10 for place in range(10)])
    assert [(row.low, row.pairs) for row in found.bins] == [(place / 10, 1) for place in range(10)]
    assert [row.probability for row in found.bins] == [row.low for row in found.bins]


def test_a_sample_without_a_prediction_has_neither_precision_nor_f_half() -> None:
    """One pair of five is predicted, and rightly: samples without it count for accuracy and recall alone."""
    rates = {rate.name: rate for rate in measure_classifier([1, 0, 0, 0, 0], [0.9, 0.1, 0.1, 0.1, 0.1], 0.5)}
    assert (rates["precision"].low, rates["f_half"].low) == (1, 1)
    assert np.isnan(f_half(np.nan, 0.5))
    assert f_half(0, 0) == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: measure_classifier([1, 0], [0.5, 0.6], 0.9), InvalidOption, r"reaches the threshold 0\.9, .* is 0\.6"),
        (lambda: measure_classifier([1, 0], [0.5, 0.6], 0.5, images=["a"]), DataError, "give one for every pair"),
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
def test_what_gives_no_number_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("label", [2, -1, 0.5, "1", None])
def test_labels_outside_0_and_1_give_no_number(label: object) -> None:
    for call in (
        lambda labels, scores: measure_classifier(labels, scores, 0.5),
        lambda labels, scores: choose_threshold(scores, labels),
        measure_reliability,
        lambda labels, scores: fit_calibration(scores, labels),
    ):
        with pytest.raises(DataError, match="label"):
            call([1, label], [0.5, 0.6])
