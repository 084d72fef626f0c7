"""Bradley-Terry strengths: the paper's table, a general optimiser, and what has no answer."""

import numpy as np
import pytest
from scipy.optimize import minimize

from cxc_eccv.errors import DataError, MalformedSource
from cxc_eccv.studies.annotation.label_quality import preferences as module
from cxc_eccv.studies.annotation.label_quality.preferences import rate_preferences, read_preferences

pytestmark = pytest.mark.thorough

PRINTED = [[0, 231, 66, 111, 316], [89, 0, 21, 79, 328], [254, 299, 0, 273, 343], [185, 217, 23, 0, 287]]
TABLE_D1 = [*PRINTED, [28, 16, 1, 9, 24]]
"""Of the ECCV Caption paper, row preferred to column; its diagonal holds a 24 that means nothing."""


def fit(wins):
    """Strengths in the order of the rows, in percent."""
    names = [f"row {row}" for row in range(len(wins))]
    rated = {strength.name: strength.value for strength in rate_preferences(wins, names)}
    return np.array([rated[name] for name in names])


@pytest.mark.reference
def test_table_d1_gives_the_papers_five_strengths():
    assert fit(TABLE_D1).round(2).tolist() == [10.66, 4.89, 70.85, 13.15, 0.44]


@pytest.mark.parametrize("seed", range(5))
def test_strengths_make_the_choices_likeliest(seed):
    counts = np.random.default_rng(seed).integers(1, 30, (4, 4))
    np.fill_diagonal(counts, 0)

    def unlikeliness(logs):
        logs = np.append(logs, 0)
        return (counts * np.logaddexp(0, logs[None, :] - logs[:, None])).sum()

    logs = np.append(minimize(unlikeliness, np.zeros(3), tol=1e-12).x, 0)
    assert fit(counts) == pytest.approx(100 * np.exp(logs) / np.exp(logs).sum(), abs=1e-3)


def test_intervals_narrow_with_more_choices():
    few, many = (rate_preferences(np.array(TABLE_D1) * times, list("ABCDE"))[0] for times in (1, 16))
    assert few.name == many.name == "C"
    assert few.low < few.value < few.high
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(4, rel=0.15)


def test_one_sided_samples_count_with_their_limit():
    """Of 10 choices 9 were A's: in a third of the samples it won all, and nothing says how much stronger it is."""
    own = {found.name: found for found in rate_preferences([[0, 9], [1, 0]], ["A", "B"])}
    drawn = np.quantile(np.random.default_rng(3).binomial(10, 0.9, 100_000) * 10, [0.025, 0.975])
    assert [own["A"].low, own["A"].high] == pytest.approx(drawn.tolist()) == [70, 100]
    assert [own["B"].low, own["B"].high] == pytest.approx([0, 30])
    # Two that are never beaten by the third share the whole as they would without it.
    limit = module._fit_limits(np.array([[[0, 3, 2], [1, 0, 0], [0, 0, 0]], [[0, 1, 0], [1, 0, 0], [0, 0, 0]]], float))
    assert limit == pytest.approx(np.array([[0.75, 0.25, 0]]))  # the other one has two groups that never met


def test_systems_that_cannot_be_compared_are_named():
    with pytest.raises(DataError, match=r"2 groups \((ann; ben, cleo|ben, cleo; ann)\)"):
        rate_preferences([[0, 5, 5], [0, 0, 3], [0, 2, 0]], ["ann", "ben", "cleo"])


def test_choices_are_read_one_by_one_or_counted(tmp_path):
    (tmp_path / "choices.csv").write_text("worker,winner,loser\nw1,A,B\nw2,A,B\nw1,B,A\nw3,C,A\n")
    wins, names = read_preferences(tmp_path / "choices.csv")
    assert names == ("A", "B", "C")
    assert wins.tolist() == [[0, 2, 0], [1, 0, 0], [1, 0, 0]]
    (tmp_path / "counted.csv").write_text("winner,loser,count\nA,B,2\nB,A,1\nC,A,1\n")
    assert read_preferences(tmp_path / "counted.csv")[0].tolist() == wins.tolist()
    (tmp_path / "counted.csv").write_text("winner,loser,Count \nA,B,2\nB,A,1\nC,A,1\n")
    assert read_preferences(tmp_path / "counted.csv")[0].tolist() == wins.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("winner,loser\nA,A\n", "line 2.*'A' preferred to 'A'.*two systems"),
        ("winner,loser\nA,\n", "line 2.*two systems"),
        ("winner,loser,count\nA,B,2\nB,A,-1\n", "line 3, column 'count'.*whole number"),
        ("winner,loser,count\nA,B,1.5\n", "line 2, column 'count'.*whole number"),
        ("winner,loser,n\nA,B,2\nB,A,1\n", "column 'n': found '2' in it, and no column count"),
        ("x,A,B\nA,0,3\nB,1,0\n", "a column 'winner'"),
    ],
)
def test_files_that_hold_no_choices_are_refused(tmp_path, text, message):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(MalformedSource, match=message):
        read_preferences(tmp_path / "bad.csv")
