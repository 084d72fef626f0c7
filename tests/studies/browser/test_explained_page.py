"""The page of failures in Chromium: boxes, colours and the filter."""

import pytest
from explained_samples import explanation_of, without_wordnet
from page_checks import OPEN_FOLDS, SCREEN_WIDTHS, assert_quiet, assert_sound, resize

from cxc_eccv.sources.download import sample_images
from cxc_eccv.studies.explain.failure_report import FailureReport


@pytest.fixture(scope="module")
def html(sample_library):
    with pytest.MonkeyPatch.context() as patch:
        without_wordnet(patch)
        return FailureReport([explanation_of(sample_library)], shown=4).to_html(sample_images())


def test_images_stand_side_by_side_at_any_width(open_page, html):
    page = open_page(html)
    page.evaluate(OPEN_FOLDS)
    for width in SCREEN_WIDTHS:
        resize(page, width)
        misplaced = """[...document.querySelectorAll('.sides')]
          .map((pair) => [...pair.querySelectorAll('.frame')].map((frame) => frame.getBoundingClientRect()))
          .filter(([left, right]) => left.right > right.left || left.top !== right.top
            || Math.min(left.width, right.width) < 100).length"""
        assert page.evaluate(misplaced) == 0


def test_boxes_lie_inside_their_images(open_page, html):
    astray = """[...document.querySelectorAll('.frame')].flatMap((frame) => {
      const image = frame.querySelector('img').getBoundingClientRect();
      return [...frame.querySelectorAll('.box')].map((element) => {
        const box = element.getBoundingClientRect(), share = (name) => parseFloat(element.style[name]) / 100;
        const off = Math.abs(box.left - image.left - share('left') * image.width)
          + Math.abs(box.top - image.top - share('top') * image.height);
        return off > 1 || box.right > image.right + 1 || box.bottom > image.bottom + 1;
      });
    })"""
    page = open_page(html)
    for width in (390, 1280):
        resize(page, width)
        found = page.evaluate(astray)
        assert len(found) > 50
        assert not any(found)


def test_the_filter_shows_one_kind_alone(open_page, html):
    kinds = """[...document.querySelectorAll('.filter [type=radio]')].map((radio) => {
      radio.click();
      return [...new Set([...document.querySelectorAll('.failure')]
        .filter((failure) => failure.getBoundingClientRect().height)
        .map((failure) => failure.className.split(' ')[1]))].sort();
    })"""
    assert open_page(html).evaluate(kinds) == [["far", "near", "partly"], ["far"], ["partly"], ["near"]]


def test_search_shows_failures_with_a_concept(open_page, html):
    """By its whole name, by a part of one, in one of the images alone, together with the kind; and all again."""
    page = open_page(html)
    shown = "[...document.querySelectorAll('[data-both]')].filter((element) => element.getClientRects().length)"
    number = page.evaluate(f"{shown}.length")

    def search(**values):
        for name, value in values.items():
            page.evaluate(
                "([name, value]) => { const field = document.getElementById(name); field.value = value; "
                "field.dispatchEvent(new Event('input', {bubbles: true})); }",
                [name, value],
            )
        told = f"`${{{shown}.length}} of ${{document.querySelectorAll('[data-both]').length}} failures on this page`"
        assert page.evaluate("document.getElementById('found').value") == (
            page.evaluate(told) if any(values.values()) else ""
        )

    def has_every(parts, name):
        part = "(element) => parts.some((part) => element.dataset[part].split(';').includes(name))"
        return page.evaluate(f"([parts, name]) => {shown}.length > 0 && {shown}.every({part})", [parts, name])

    search(concept="Heart")
    assert has_every(["both", "truth", "retrieved"], "heart")
    search(part="truth")
    assert has_every(["truth"], "heart")
    page.evaluate("document.getElementById('only-partly').click()")
    assert page.evaluate(f"{shown}.every((element) => element.classList.contains('partly'))")
    search(part="truth")
    page.evaluate("document.getElementById('only-all').click()")
    search(part="", concept="hear")
    assert has_every(["both", "truth", "retrieved"], "heart")
    search(concept="no such thing")
    assert page.evaluate(f"{shown}.length") == 0
    search(concept="")
    assert page.evaluate(f"{shown}.length") == number
    assert page.evaluate("document.querySelector('label[for=concept]').getClientRects().length") == 1
    assert_quiet(page)


def test_images_are_in_the_page_with_one_script(open_page, html):
    page = open_page(html)
    assert page.evaluate("document.images.length") > 20
    assert page.evaluate("document.scripts.length") == 1


def test_page_is_sound_in_a_browser(open_page, html):
    """Numbers on boxes are among its texts."""
    assert_sound(open_page(html), 300)
