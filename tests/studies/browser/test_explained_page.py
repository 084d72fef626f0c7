"""The page of failures in headless Chromium: narrow and wide, light and dark; boxes, colours and the filter."""

import pytest
from explained_samples import explanation_of, without_wordnet

from cxc_eccv.demo.run import sample_images
from cxc_eccv.studies.explain.page import render_explained

pytestmark = pytest.mark.slow

WIDTHS = (320, 390, 768, 1280)


@pytest.fixture(scope="module")
def html(sample_library):
    with pytest.MonkeyPatch.context() as patch:
        without_wordnet(patch)
        return render_explained([explanation_of(sample_library)], sample_library, images=sample_images(), shown=4)


def test_nothing_overflows_and_the_images_stand_side_by_side(measure, html):
    function = """(window, page) => {
      for (const one of page.querySelectorAll('details')) one.open = true;
      const width = page.documentElement.clientWidth;
      const clipped = (one) => one.closest('.scroll, nav, .hidden, .long, .skip');
      const pairs = [...page.querySelectorAll('.sides')].map((one) =>
        [...one.querySelectorAll('.frame')].map((frame) => frame.getBoundingClientRect()));
      return {
        scroll: page.documentElement.scrollWidth - width,
        outside: [...page.querySelectorAll('main *, header *, footer *')]
          .filter((one) => !clipped(one) && one.getBoundingClientRect().right > width + 1)
          .map((one) => one.outerHTML.slice(0, 120)),
        stacked: pairs.filter(([left, right]) => left.right > right.left || left.top !== right.top).length,
        narrow: pairs.flat().filter((one) => one.width < 100).length,
      };
    }"""
    found, _, _ = measure(html, function, WIDTHS)
    for width in WIDTHS:
        assert found[str(width)] == {"scroll": 0, "outside": [], "stacked": 0, "narrow": 0}


def test_boxes_lie_inside_their_images_in_the_place_that_they_name(measure, html):
    function = """(window, page) => {
      let count = 0, astray = 0;
      for (const frame of page.querySelectorAll('.frame')) {
        const image = frame.querySelector('img').getBoundingClientRect();
        for (const one of frame.querySelectorAll('.box')) {
          const box = one.getBoundingClientRect(), share = (name) => parseFloat(one.style[name]) / 100;
          count += 1;
          const off = Math.abs(box.left - image.left - share('left') * image.width)
            + Math.abs(box.top - image.top - share('top') * image.height);
          if (off > 1 || box.right > image.right + 1 || box.bottom > image.bottom + 1) astray += 1;
        }
      }
      return {count: count > 50, astray};
    }"""
    found, _, _ = measure(html, function, (390, 1280))
    for one in found.values():
        assert one == {"count": True, "astray": 0}


def test_the_filter_shows_one_kind_alone(measure, html):
    function = """(window, page) => {
      const shown = () => [...new Set([...page.querySelectorAll('.failure')]
        .filter((one) => one.getBoundingClientRect().height).map((one) => one.className.split(' ')[1]))].sort();
      const found = [];
      for (const one of page.querySelectorAll('.filter [type=radio]')) { one.click(); found.push(shown()); }
      return found;
    }"""
    found, _, _ = measure(html, function, (1280,))
    assert found["1280"] == [["far", "near", "partly"], ["far"], ["partly"], ["near"]]


def test_the_search_shows_failures_with_a_concept_and_counts_them(measure, html):
    """By its whole name, by a part of one, in one of the images alone, together with the kind; and all again."""
    function = """(window, page) => {
      const shown = () => [...page.querySelectorAll('[data-both]')].filter((one) => one.getClientRects().length);
      const type = (id, value) => {
        page.getElementById(id).value = value;
        page.getElementById(id).dispatchEvent(new window.Event('input', {bubbles: true}));
      };
      const all = page.querySelectorAll('[data-both]').length, before = shown().length;
      const told = () => page.getElementById('found').value === `${shown().length} of ${all} failures on this page`;
      const every = (parts, name) => shown().length > 0
        && shown().every((one) => parts.some((part) => one.dataset[part].split(';').includes(name)));
      const found = {};
      type('concept', 'Heart');
      found.word = every(['both', 'truth', 'retrieved'], 'heart') && told();
      type('part', 'truth');
      found.part = every(['truth'], 'heart') && told();
      page.getElementById('only-partly').click();
      found.kind = shown().every((one) => one.classList.contains('partly')) && told();
      page.getElementById('only-all').click();
      type('part', '');
      type('concept', 'hear');
      found.start = every(['both', 'truth', 'retrieved'], 'heart');
      type('concept', 'no such thing');
      found.nothing = shown().length === 0 && told();
      type('concept', '');
      found.all = shown().length === before && page.getElementById('found').value === '';
      found.label = page.querySelector('label[for=concept]').getClientRects().length === 1;
      return found;
    }"""
    found, _, console = measure(html, function, (1280,))
    assert set(found["1280"].values()) == {True}, found
    assert console == []


def test_it_asks_for_nothing_and_complains_of_nothing(measure, html):
    function = """(window, page) => ({
      images: page.images.length > 20,
      broken: [...page.images].filter((one) => !one.naturalWidth).length,
      scripts: page.scripts.length,
    })"""
    found, requests, console = measure(html, function, (1280,))
    assert found["1280"] == {"images": True, "broken": 0, "scripts": 1}
    assert set(requests) <= {"/harness.html", "/report.html", "/favicon.ico"}
    assert console == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(measure, html, dark):
    """WCAG AA on what the browser computed: 4.5 to 1, and no text under 11 pixels; numbers on boxes among them."""
    function = """(window, page) => {
      for (const one of page.querySelectorAll('details')) one.open = true;
      const parse = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
      const solid = (colour) => parse(colour).length === 3 || parse(colour)[3] === 1;
      const light = (colour) => {
        const [r, g, b] = parse(colour).map((one) => one / 255)
          .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const ground = (one) => {
        while (one && !solid(window.getComputedStyle(one).backgroundColor)) one = one.parentElement;
        return window.getComputedStyle(one || page.documentElement).backgroundColor;
      };
      const poor = [];
      let count = 0;
      for (const one of page.body.querySelectorAll('*')) {
        const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || one.closest('svg, .hidden, .long, .short, .skip')) continue;
        const style = window.getComputedStyle(one), size = parseFloat(style.fontSize);
        const [high, low] = [light(style.color), light(ground(one))].sort((a, b) => b - a);
        if ((high + 0.05) / (low + 0.05) < 4.5 || size < 11) poor.push([size, one.outerHTML.slice(0, 100)]);
        count += 1;
      }
      return {poor, count: count > 300};
    }"""
    found, _, _ = measure(html, function, dark=dark)
    for one in found.values():
        assert one == {"poor": [], "count": True}
