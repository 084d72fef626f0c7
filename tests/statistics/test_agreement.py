"""Agreement against published values, and against what the definitions say on random answers."""

from itertools import combinations, permutations

import numpy as np
import pytest

from cxc_eccv.errors import DataError
from cxc_eccv.statistics.agreement import (
    cohen_kappa,
    count_answers,
    krippendorff_alpha,
    share_of_agreement,
    uniform_kappa,
)

FLEISS = """444444 222555 233335 555555 222444 113333 333355 113334 114444 555555 144444 124444 222333 144444 224445
333335 111455 111112 224444 133555 555555 244444 224555 114444 144445 222224 111155 224444 133333 555555"""
"""Diagnoses of 30 patients by six psychiatrists each, of Fleiss 1971: 1 depression, 2 personality disorder, ..."""

PATIENTS = np.array([[int(own) - 1 for own in patient] for patient in FLEISS.split()]).T

KRIPPENDORFF = """1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 ."""
"""Four observers and twelve units, of Krippendorff 2011, part C."""


PSYCHIATRISTS = [[88, 14, 18], [10, 40, 10], [2, 6, 12]]
"""Two judges and 200 cases, of Cohen 1960, Table 2."""


def judged(table):
    """The answers of two annotators behind a table of how often they gave each pair of answers."""
    rows, columns = np.indices(np.shape(table))
    return np.repeat(rows, np.ravel(table)), np.repeat(columns, np.ravel(table))


def count_rows(answers, n_classes):
    """Counts of a row of answers per annotator."""
    answers = np.asarray(answers)
    return count_answers(np.tile(np.arange(answers.shape[1]), len(answers)), answers.ravel(), n_classes)


@pytest.mark.reference
def test_cohen_of_1960():
    """Table 2: 70% agree, 41% by chance; kappa .492."""
    first, second = judged(PSYCHIATRISTS)
    assert (first == second).mean() == 0.7
    assert cohen_kappa(first, second, 3) == pytest.approx(0.492, abs=5e-4)


@pytest.mark.reference
def test_falotico_and_quatto_of_2015():
    """On the patients of Fleiss, the example of their R package ``raters``: agreement .556, S .444."""
    counts = count_rows(PATIENTS, 5)
    assert share_of_agreement(counts) == pytest.approx(0.556, abs=5e-4)
    assert uniform_kappa(counts) == pytest.approx(0.444, abs=5e-4)


@pytest.mark.reference
@pytest.mark.parametrize(("table", "cohen"), [([[40, 9], [6, 45]], 0.70), ([[80, 10], [5, 5]], 0.32)])
def test_the_paradox_of_feinstein_and_cicchetti_of_1990(table, cohen):
    """The same agreement of 85% is a kappa of .70 or .32; without paradox .70 both times (Byrt et al. 1993)."""
    first, second = judged(table)
    assert cohen_kappa(first, second, 2) == pytest.approx(cohen, abs=5e-3)
    assert uniform_kappa(count_rows([first, second], 2)) == pytest.approx(0.70)


def observed():
    """Units and values of Krippendorff's data."""
    answers = [
        (unit, float(value))
        for line in KRIPPENDORFF.splitlines()
        for unit, value in enumerate(line.split())
        if value != "."
    ]
    return zip(*answers, strict=True)


@pytest.mark.reference
@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("interval", 0.849)])
def test_krippendorff_of_2011(level, alpha):
    """Part C."""
    assert krippendorff_alpha(*map(list, observed()), level) == pytest.approx(alpha, abs=5e-4)


@pytest.mark.parametrize("level", ["nominal", "interval"])
@pytest.mark.parametrize("seed", range(3))
def test_alpha_is_that_of_all_pairs_of_answers(seed, level):
    """The definition, pair by pair: disagreement within units over that of all answers."""
    random = np.random.default_rng(seed)
    answers = random.integers(0, 5, (4, 15)).astype(float)
    answers[random.random((4, 15)) < 0.4] = np.nan
    own = [column[~np.isnan(column)] for column in answers.T]
    own = [column for column in own if column.size > 1]

    def differ(one, other):
        return (one - other) ** 2 if level == "interval" else float(one != other)

    def mean_within(values):
        return sum(differ(one, other) for one, other in permutations(values, 2)) / (len(values) - 1)

    every = np.concatenate(own)
    wanted = 1 - sum(map(mean_within, own)) / every.size / (mean_within(every) / every.size)
    workers, units = np.nonzero(~np.isnan(answers))
    assert krippendorff_alpha(units, answers[workers, units], level) == pytest.approx(wanted)


@pytest.mark.reference
@pytest.mark.parametrize("level", ["nominal", "interval"])
@pytest.mark.parametrize("seed", range(20))
def test_alpha_equals_the_package_krippendorff(seed, level):
    krippendorff = pytest.importorskip("krippendorff", reason="krippendorff is not installed: pip install '.[test]'")
    random = np.random.default_rng(seed)
    answers = random.integers(-3, 4, random.integers(2, 9, 2)).astype(float)
    answers[random.random(answers.shape) < 0.3] = np.nan
    answers[:2, 0] = 1, 2
    workers, units = np.nonzero(~np.isnan(answers))
    wanted = krippendorff.alpha(reliability_data=answers, level_of_measurement=level)
    assert krippendorff_alpha(units, answers[workers, units], level) == pytest.approx(wanted, abs=1e-12)


def test_continuous_ratings_need_little_memory():
    values = np.random.default_rng(0).random(200_000)
    assert abs(krippendorff_alpha(np.arange(200_000) // 2, values, "interval")) < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_agreement_is_that_of_all_pairs_of_annotators(seed):
    answers = np.random.default_rng(seed).integers(0, 3, (4, 20))
    agree = np.mean([(one == other).mean() for one, other in combinations(answers, 2)])
    counts = count_rows(answers, 3)
    assert uniform_kappa(counts) == pytest.approx((agree - 1 / 3) / (1 - 1 / 3))


def test_items_with_different_numbers_of_answers_count_alike():
    assert uniform_kappa([[2, 0], [2, 2]]) == pytest.approx(((1 + 1 / 3) / 2 - 0.5) / 0.5)


def test_kappa_without_variety_is_refused():
    with pytest.raises(DataError, match="all answers are the same"):
        cohen_kappa([0, 0], [0, 0], 2)


@pytest.mark.parametrize("level", ["nominal", "interval"])
def test_alpha_needs_variety_and_two_answers(level):
    with pytest.raises(DataError, match="all answers are the same"):
        krippendorff_alpha([0, 0, 1, 1, 2], [1, 1, 1, 1, 2], level)
    with pytest.raises(DataError, match="no item has two answers"):
        krippendorff_alpha([0, 1], [1, 2], level)
