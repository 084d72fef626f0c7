"""The page of an annotation in Chromium: what people typed stays text."""

import pytest
from annotated_samples import CHANGES, hostile_annotation, sample_annotation
from page_checks import OPEN_FOLDS, assert_quiet, assert_sound


@pytest.fixture(scope="module")
def hostile(sample_library):
    return hostile_annotation(sample_library).to_html()


@pytest.fixture(scope="module")
def plain(sample_library):
    return sample_annotation(sample_library, changes=CHANGES, remark="odd").to_html()


def test_nothing_that_people_typed_runs(open_page, hostile):
    """A dialog fails any test; images would be asked for; a script would be an element."""
    page = open_page(hostile)
    acting = """(selector) => [...document.querySelectorAll('*')].filter((element) => element.matches(selector)
      || [...element.attributes].some((attribute) => attribute.name.startsWith('on'))).length"""
    forbidden = 'script, img:not([src^="data:"]), iframe, object, embed, form, a:not([href^="#"])'
    assert page.evaluate(acting, forbidden) == 0
    page.evaluate(OPEN_FOLDS)
    assert page.evaluate("document.body.innerText.split('alert(2)').length") > 20
    assert page.evaluate("document.title").startswith("Annotation of mine")
    assert_quiet(page)


@pytest.mark.parametrize("content", ["plain", "hostile"])
def test_page_is_sound_in_a_browser(open_page, request, content):
    assert_sound(open_page(request.getfixturevalue(content)), 200)
