"""The page of an annotation in headless Chromium: what people typed stays text, narrow and wide, light and dark."""

import pytest
from annotated_samples import CHANGES, hostile_annotation, sample_annotation

from cxc_eccv.studies.annotation.annotation_report import render_annotated

pytestmark = pytest.mark.slow

SCROLLS_BY_ITSELF = ".sheet > *, .hidden, .long, .skip, nav"


@pytest.fixture(scope="module")
def hostile(sample_library):
    return render_annotated(hostile_annotation(sample_library))


@pytest.fixture(scope="module")
def plain(sample_library):
    return render_annotated(sample_annotation(sample_library, changes=CHANGES, remark="odd"))


def test_nothing_that_people_typed_runs(visitor, hostile):
    """Dialogs would be among the complaints; images would be asked for; a script would be an element."""
    page = visitor.open(hostile)
    acting = """(selector) => [...document.querySelectorAll('*')].filter((element) => element.matches(selector)
      || [...element.attributes].some((attribute) => attribute.name.startsWith('on'))).length"""
    forbidden = 'script, img:not([src^="data:"]), iframe, object, embed, form, a:not([href^="#"])'
    assert page.run(acting, forbidden) == 0
    page.open_folds()
    assert page.run("document.body.innerText.split('alert(2)').length") > 20
    assert page.run("document.title").startswith("Annotation of mine")
    assert page.requests == []
    assert page.complaints == []


def test_nothing_overflows(visitor, plain, hostile):
    """Tables scroll by themselves; the page does not."""
    for html in (plain, hostile):
        visitor.open(html).assert_fitting(SCROLLS_BY_ITSELF)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(visitor, plain, dark):
    visitor.open(plain, dark=dark).assert_legible(200)
