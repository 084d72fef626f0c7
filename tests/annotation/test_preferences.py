"""Bradley-Terry strengths: the paper's table, a general optimiser, and what has no answer."""

import numpy as np
import pytest
from scipy.optimize import minimize

from cxc_eccv.annotation.worth.preferences import fit_strengths, rate_preferences
from cxc_eccv.errors import DataError

PRINTED = [[0, 231, 66, 111, 316], [89, 0, 21, 79, 328], [254, 299, 0, 273, 343], [185, 217, 23, 0, 287]]
TABLE_D1 = [*PRINTED, [28, 16, 1, 9, 24]]
"""Of the ECCV Caption paper, row preferred to column; its diagonal holds a 24 that means nothing."""


@pytest.mark.reference
def test_table_d1_gives_the_five_values_of_the_paper_under_other_letters():
    assert (100 * fit_strengths(TABLE_D1)).round(2).tolist() == [10.66, 4.89, 70.85, 13.15, 0.44]


@pytest.mark.parametrize("seed", range(5))
def test_strengths_make_the_choices_likeliest(seed):
    counts = np.random.default_rng(seed).integers(1, 30, (4, 4))
    np.fill_diagonal(counts, 0)

    def unlikeliness(logs):
        logs = np.append(logs, 0)
        return (counts * np.logaddexp(0, logs[None, :] - logs[:, None])).sum()

    logs = np.append(minimize(unlikeliness, np.zeros(3), tol=1e-12).x, 0)
    assert fit_strengths(counts) == pytest.approx(np.exp(logs) / np.exp(logs).sum(), abs=1e-5)


def test_intervals_hold_the_value_and_narrow_with_more_choices():
    few, many = (rate_preferences(np.array(TABLE_D1) * times, list("ABCDE"))[0] for times in (1, 16))
    assert few.name == many.name == "C"
    assert few.low < few.value < few.high
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize(
    ("wins", "message"),
    [
        ([[0, 5, 5], [0, 0, 3], [0, 2, 0]], r"2 groups \(rows .*\[1, 2\]"),
        ([[0, 1.5], [1, 0]], "whole numbers"),
        ([[0, -1], [1, 0]], "whole numbers"),
        ([[0, float("nan")], [1, 0]], "whole numbers"),
        ([[0, 1, 2], [1, 0, 2]], r"shape \(2, 3\)"),
        ([[3]], "two or more"),
    ],
)
def test_what_has_no_strengths_is_refused(wins, message):
    with pytest.raises(DataError, match=message):
        fit_strengths(wins)


def test_every_system_has_a_name_of_its_own():
    with pytest.raises(DataError, match="one of its own"):
        rate_preferences(TABLE_D1, list("ABCDD"))
