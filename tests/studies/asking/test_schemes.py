"""The ways to ask, and what their answers are worth."""

import pytest

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.asking.schemes import Answer, Scheme, schemes


@pytest.mark.reference
def test_eccv_answers_have_the_gains_of_equation_e4():
    scheme = schemes()["eccv"]
    gains = {own.name: scheme.compute_gain(own.name) for own in scheme.answers}
    assert gains == {"yes": 1, "partially_yes": 0.5, "mostly_no": 0, "no": 0}
    assert [scheme.is_positive(gain) for gain in gains.values()] == [True, True, False, False]
    assert [len(own.choices) for own in scheme.details] == [4, 10]
    assert scheme.details[1].after in scheme.details[0].choices


def test_names_in_answer_files_are_lowercase():
    """A spreadsheet may have capitalised them."""
    for scheme in schemes().values():
        names = [own.name for own in scheme.answers] + [name for own in scheme.details for name in own.choices]
        assert names == [name.lower() for name in names]


@pytest.mark.reference
def test_cxc_scales_have_six_descriptions_each():
    kinds = [schemes()[name] for name in ("cxc", "cxc_images", "cxc_captions")]
    assert [len(own.marks) for own in kinds] == [6, 6, 6]
    assert len({mark for own in kinds for mark in own.marks}) == 18
    assert {own.rule for own in kinds} == {"mean"}
    images = schemes()["cxc_images"]
    assert [images.is_positive(images.compute_gain(rating)) for rating in (2.4, 2.5)] == [False, True]


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("eccv", 1, "give one of"),
        ("cxc", True, "from 0 to 5"),
        ("cxc", float("nan"), "from 0 to 5"),
        ("cxc", "3", "from 0 to 5"),
        ("entailment", {"describes": True, "follows": 1}, "true or false"),
        ("entailment", True, "describes and follows"),
        ("failures", 0, "a whole number from 1 to 10"),
        ("failures", 7.5, "a whole number from 1 to 10"),
    ],
)
def test_what_is_no_answer_is_refused(name, answer, message):
    with pytest.raises(InvalidOption, match=message):
        schemes()[name].compute_gain(answer)


def test_a_scheme_asks_in_one_way():
    with pytest.raises(InvalidOption, match="exactly one of"):
        Scheme("mine", "", "", (), "", answers=(Answer("yes", "yes", 1),), scale=(0, 5))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([], "classes: none; tick one or more of alternatives"),
        (["color"], "classes: 'color'; tick one or more"),
        (["alternatives", "size"], "alternatives together with size; tick alternatives alone"),
        (["size", "detail", "alternatives"], "alternatives together with size"),
    ],
)
def test_failure_ratings_need_the_classes_of_errors(classes, message):
    with pytest.raises(InvalidOption, match=message):
        schemes()["failures"].check_details(3, {"classes": classes} if classes else {})
    assert schemes()["failures"].check_details(3, {"classes": ["size", "colour"]}) == {"classes": ["colour", "size"]}


def test_widgets_say_what_the_page_draws():
    drawn = {name: own.widgets() for name, own in schemes().items()}
    assert [(own["name"], own["kind"], own.get("asked_with", "")) for own in drawn["eccv"]] == [
        ("answer", "choice", ""),
        ("shortcomings", "ticks", ["partially_yes", "mostly_no"]),
        ("errors", "ticks", ["partially_yes", "mostly_no"]),
    ]
    assert [(own["kind"], own.get("step"), own.get("alone")) for own in drawn["failures"]] == [
        ("slider", 1.0, None),
        ("ticks", None, "alternatives"),
    ]
    assert [own["kind"] for own in drawn["entailment"]] == ["yes_no", "yes_no"]
    assert (drawn["cxc"][0]["step"], len(drawn["cxc"][0]["marks"])) == (None, 6)
