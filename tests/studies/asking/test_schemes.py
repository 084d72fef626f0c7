"""The three ways to ask, and what their answers are worth."""

import pytest

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.asking.schemes import Answer, Scheme, schemes


@pytest.mark.reference
def test_eccv_answers_have_the_gains_of_equation_e4():
    scheme = schemes()["eccv"]
    gains = {own.name: scheme.gain_of(own.name) for own in scheme.answers}
    assert gains == {"yes": 1, "partially_yes": 0.5, "mostly_no": 0, "no": 0}
    assert [scheme.is_positive(gain) for gain in gains.values()] == [True, True, False, False]
    assert [len(own.choices) for own in scheme.details] == [4, 10]
    assert scheme.details[1].after in scheme.details[0].choices


def test_names_in_files_are_small_letters_as_a_spreadsheet_may_have_made_capitals_of_them():
    for scheme in schemes().values():
        names = [own.name for own in scheme.answers] + [name for own in scheme.details for name in own.choices]
        assert names == [name.lower() for name in names]


@pytest.mark.parametrize(("rating", "positive"), [(0, False), (2.99, False), (3, True), (5.0, True)])
def test_a_rating_is_positive_from_3_on(rating, positive):
    scheme = schemes()["cxc"]
    assert scheme.is_positive(scheme.gain_of(rating)) is positive
    assert len(scheme.marks) == 6


def test_both_criteria_must_hold():
    scheme = schemes()["entailment"]
    said = {
        both: scheme.is_positive(scheme.gain_of(dict(zip(scheme.criteria, both, strict=True))))
        for both in [(True, True), (True, False), (False, True), (False, False)]
    }
    assert [both for both, positive in said.items() if positive] == [(True, True)]


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("eccv", "maybe", "yes, partially_yes, mostly_no, no"),
        ("eccv", 1, "give one of"),
        ("cxc", 5.1, "from 0 to 5"),
        ("cxc", True, "from 0 to 5"),
        ("cxc", float("nan"), "from 0 to 5"),
        ("cxc", "3", "from 0 to 5"),
        ("entailment", {"describes": True}, "describes and follows"),
        ("entailment", {"describes": True, "follows": 1}, "true or false"),
        ("entailment", True, "describes and follows"),
    ],
)
def test_what_is_no_answer_is_refused(name, answer, message):
    with pytest.raises(InvalidOption, match=message):
        schemes()[name].gain_of(answer)


def test_a_scheme_asks_in_one_way():
    with pytest.raises(InvalidOption, match="one of the three"):
        Scheme("mine", "", "", (), "", answers=(Answer("yes", "yes", 1),), scale=(0, 5))
