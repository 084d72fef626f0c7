"""Agreement against published values, and against what the definitions say on random answers."""

from itertools import combinations, permutations, product

import numpy as np
import pytest

from cxc_eccv.annotation.agreement import cohen_kappa, count_answers, fleiss_kappa, krippendorff_alpha, uniform_kappa
from cxc_eccv.errors import DataError

FLEISS = """444444 222555 233335 555555 222444 113333 333355 113334 114444 555555 144444 124444 222333 144444 224445
333335 111455 111112 224444 133555 555555 244444 224555 114444 144445 222224 111155 224444 133333 555555"""
"""Diagnoses of 30 patients by six psychiatrists each, of Fleiss 1971: 1 depression, 2 personality disorder, ..."""

PATIENTS = np.array([[int(own) - 1 for own in patient] for patient in FLEISS.split()]).T

KRIPPENDORFF = """1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 ."""
"""Four observers and twelve units, of Krippendorff 2011, part C."""


@pytest.mark.reference
def test_fleiss_of_1971():
    counts = count_answers(PATIENTS, 5)
    assert fleiss_kappa(counts) == pytest.approx(0.430, abs=5e-4)
    assert uniform_kappa(counts) == pytest.approx(0.444, abs=5e-4)


@pytest.mark.reference
def test_krippendorff_of_2011():
    pytest.importorskip("krippendorff")
    answers = [[np.nan if own == "." else float(own) for own in line.split()] for line in KRIPPENDORFF.splitlines()]
    found = {level: krippendorff_alpha(answers, level) for level in ("nominal", "ordinal", "interval", "ratio")}
    assert {level: round(value, 3) for level, value in found.items()} == {
        "nominal": 0.743,
        "ordinal": 0.815,
        "interval": 0.849,
        "ratio": 0.797,
    }


@pytest.mark.reference
def test_cohen_of_two_readers_of_grants():
    """25 grants, two readers: 20 yes of both, 15 no of both, 5 and 10 apart; kappa 0.4."""
    first, second = [0] * 20 + [0] * 5 + [1] * 10 + [1] * 15, [0] * 20 + [1] * 5 + [0] * 10 + [1] * 15
    assert cohen_kappa(first, second, 2) == pytest.approx(0.4)


@pytest.mark.parametrize("seed", range(3))
def test_agreement_is_that_of_all_pairs_of_annotators(seed):
    answers = np.random.default_rng(seed).integers(0, 3, (4, 20))
    agree = np.mean([(one == other).mean() for one, other in combinations(answers, 2)])
    shares = np.bincount(answers.ravel(), minlength=3) / answers.size
    chance = (shares**2).sum()
    counts = count_answers(answers, 3)
    assert fleiss_kappa(counts) == pytest.approx((agree - chance) / (1 - chance))
    assert uniform_kappa(counts) == pytest.approx((agree - 1 / 3) / (1 - 1 / 3))


def test_the_uniform_kappa_has_the_chance_that_all_permutations_within_items_have_on_average():
    counts = np.array([[3, 0], [2, 1], [3, 0]])
    shares = []
    for orders in product(permutations(range(2)), repeat=3):
        moved = np.array([row[list(order)] for row, order in zip(counts, orders, strict=True)])
        shares.append(moved.sum(axis=0) / moved.sum())
    assert np.mean(shares, axis=0) == pytest.approx([0.5, 0.5])


def test_nearly_all_the_same_answer_is_high_agreement_only_without_the_paradox():
    counts = [[6, 0]] * 19 + [[5, 1]]
    assert fleiss_kappa(counts) < 0
    assert uniform_kappa(counts) > 0.9


def test_items_with_different_numbers_of_answers_count_alike():
    assert uniform_kappa([[2, 0], [2, 2]]) == pytest.approx(((1 + 1 / 3) / 2 - 0.5) / 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fleiss_kappa([[1, 0], [2, 1]]), "item 0 has fewer than two answers"),
        (lambda: fleiss_kappa([[3, 0], [3, 0]]), "all answers are the same"),
        (lambda: uniform_kappa([[1.5, 0.5]]), "whole numbers"),
        (lambda: uniform_kappa([[-1, 3]]), "whole numbers"),
        (lambda: uniform_kappa([[3], [3]]), "column per answer"),
        (lambda: cohen_kappa([0, 1], [0, -1], 2), "both annotators"),
        (lambda: cohen_kappa([0, 1], [0], 2), "unequal numbers"),
        (lambda: cohen_kappa([0, 0], [0, 0], 2), "all answers are the same"),
        (lambda: cohen_kappa([0, 2], [0, 1], 2), "from 0 to 1"),
    ],
)
def test_what_has_no_agreement_is_refused(call, message):
    with pytest.raises(DataError, match=message):
        call()


def test_alpha_without_variety_is_refused():
    pytest.importorskip("krippendorff")
    with pytest.raises(DataError, match="no value"):
        krippendorff_alpha([[1, 1], [1, 1]])
