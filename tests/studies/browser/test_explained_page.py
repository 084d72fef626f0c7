"""The page of failures in headless Chromium: narrow and wide, light and dark; boxes, colours and the filter."""

import pytest
from explained_samples import explanation_of, without_wordnet

from cxc_eccv.sources.download import sample_images
from cxc_eccv.studies.explain.explained_page import render_explained

pytestmark = pytest.mark.slow

SCROLLS_BY_ITSELF = ".scroll, nav, .hidden, .long, .skip"


@pytest.fixture(scope="module")
def html(sample_library):
    with pytest.MonkeyPatch.context() as patch:
        without_wordnet(patch)
        return render_explained([explanation_of(sample_library)], images=sample_images(), shown=4)


def test_nothing_overflows_and_the_images_stand_side_by_side(visitor, html):
    page = visitor.open(html)
    for width in page.assert_fitting(SCROLLS_BY_ITSELF):
        page.resize(width)
        misplaced = """[...document.querySelectorAll('.sides')]
          .map((pair) => [...pair.querySelectorAll('.frame')].map((frame) => frame.getBoundingClientRect()))
          .filter(([left, right]) => left.right > right.left || left.top !== right.top
            || Math.min(left.width, right.width) < 100).length"""
        assert page.run(misplaced) == 0


def test_boxes_lie_inside_their_images_in_the_place_that_they_name(visitor, html):
    astray = """[...document.querySelectorAll('.frame')].flatMap((frame) => {
      const image = frame.querySelector('img').getBoundingClientRect();
      return [...frame.querySelectorAll('.box')].map((element) => {
        const box = element.getBoundingClientRect(), share = (name) => parseFloat(element.style[name]) / 100;
        const off = Math.abs(box.left - image.left - share('left') * image.width)
          + Math.abs(box.top - image.top - share('top') * image.height);
        return off > 1 || box.right > image.right + 1 || box.bottom > image.bottom + 1;
      });
    })"""
    page = visitor.open(html)
    for width in (390, 1280):
        page.resize(width)
        found = page.run(astray)
        assert len(found) > 50
        assert not any(found)


def test_the_filter_shows_one_kind_alone(visitor, html):
    kinds = """[...document.querySelectorAll('.filter [type=radio]')].map((radio) => {
      radio.click();
      return [...new Set([...document.querySelectorAll('.failure')]
        .filter((failure) => failure.getBoundingClientRect().height)
        .map((failure) => failure.className.split(' ')[1]))].sort();
    })"""
    assert visitor.open(html).run(kinds) == [["far", "near", "partly"], ["far"], ["partly"], ["near"]]


def test_the_search_shows_failures_with_a_concept_and_counts_them(visitor, html):
    """By its whole name, by a part of one, in one of the images alone, together with the kind; and all again."""
    page = visitor.open(html)
    shown = "[...document.querySelectorAll('[data-both]')].filter((element) => element.getClientRects().length)"
    number = page.run(f"{shown}.length")

    def search(**values):
        for name, value in values.items():
            page.run(
                "(name, value) => { const field = document.getElementById(name); field.value = value; "
                "field.dispatchEvent(new Event('input', {bubbles: true})); }",
                name, value,
            )  # fmt: skip
        told = f"`${{{shown}.length}} of ${{document.querySelectorAll('[data-both]').length}} failures on this page`"
        assert page.run("document.getElementById('found').value") == (page.run(told) if any(values.values()) else "")

    def has_every(parts, name):
        part = "(element) => parts.some((part) => element.dataset[part].split(';').includes(name))"
        return page.run(f"(parts, name) => {shown}.length > 0 && {shown}.every({part})", parts, name)

    search(concept="Heart")
    assert has_every(["both", "truth", "retrieved"], "heart")
    search(part="truth")
    assert has_every(["truth"], "heart")
    page.run("document.getElementById('only-partly').click()")
    assert page.run(f"{shown}.every((element) => element.classList.contains('partly'))")
    search(part="truth")
    page.run("document.getElementById('only-all').click()")
    search(part="", concept="hear")
    assert has_every(["both", "truth", "retrieved"], "heart")
    search(concept="no such thing")
    assert page.run(f"{shown}.length") == 0
    search(concept="")
    assert page.run(f"{shown}.length") == number
    assert page.run("document.querySelector('label[for=concept]').getClientRects().length") == 1
    assert page.complaints == []


def test_it_asks_for_nothing_and_complains_of_nothing(visitor, html):
    page = visitor.open(html)
    assert page.run("document.images.length") > 20
    assert page.run("[...document.images].filter((image) => !image.naturalWidth).length") == 0
    assert page.run("document.scripts.length") == 1
    assert page.requests == []
    assert page.complaints == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(visitor, html, dark):
    """Numbers on boxes among them."""
    visitor.open(html, dark=dark).assert_legible(300)
