"""The page of an annotation in headless Chromium: what people typed stays text, narrow and wide, light and dark."""

import pytest
from annotated_samples import CHANGES, hostile_annotation, sample_annotation

from cxc_eccv.studies.annotation.pages.annotated import render_annotated

pytestmark = pytest.mark.slow

WIDTHS = (320, 390, 768, 1280)


@pytest.fixture(scope="module")
def hostile(sample_library):
    return render_annotated(hostile_annotation(sample_library))


@pytest.fixture(scope="module")
def plain(sample_library):
    return render_annotated(sample_annotation(sample_library, changes=CHANGES, remark="odd"))


def test_nothing_that_people_typed_runs(measure, hostile):
    """Dialogs would be in the console; images would be asked for; a script would be an element."""
    function = """(window, page) => {
      for (const one of page.querySelectorAll('details')) one.open = true;
      return {
        acting: page.querySelectorAll('script, img, iframe, object, embed, form, a:not([href^="#"])').length,
        handlers: [...page.querySelectorAll('*')].filter((one) => [...one.attributes]
          .some((own) => own.name.startsWith('on'))).length,
        shown: page.body.innerText.split('alert(2)').length > 20,
        title: page.title.startsWith('Annotation of mine'),
      };
    }"""
    found, requests, console = measure(hostile, function, (1280,))
    assert found["1280"] == {"acting": 0, "handlers": 0, "shown": True, "title": True}
    assert set(requests) <= {"/harness.html", "/report.html", "/favicon.ico"}
    assert console == []


@pytest.mark.parametrize("page", ["plain", "hostile"])
def test_nothing_overflows(measure, request, page):
    """Tables scroll by themselves; the page does not."""
    function = """(window, page) => {
      for (const one of page.querySelectorAll('details')) one.open = true;
      const width = page.documentElement.clientWidth;
      return {
        scroll: page.documentElement.scrollWidth - width,
        outside: [...page.querySelectorAll('main *, header *, footer *')]
          .filter((one) => !one.closest('.sheet > *, .hidden, .long, .skip, nav'))
          .filter((one) => one.getBoundingClientRect().right > width + 1)
          .map((one) => one.outerHTML.slice(0, 120)),
      };
    }"""
    found, _, _ = measure(request.getfixturevalue(page), function, WIDTHS)
    for width in WIDTHS:
        assert found[str(width)] == {"scroll": 0, "outside": []}


def test_differences_stand_where_their_numbers_say(measure, plain):
    """On an axis from -40 to 40 the first row's interval is 5 to 15."""
    function = """(window, page) => {
      const row = page.querySelector('.forest tbody tr');
      const box = row.querySelector('svg').getBoundingClientRect();
      const at = (x) => Math.round(100 * (x - box.left) / box.width);
      const whisker = row.querySelector('.whisker').getBoundingClientRect();
      const circle = row.querySelector('circle').getBoundingClientRect();
      return [at(whisker.left), at((circle.left + circle.right) / 2), at(whisker.right)];
    }"""
    found, _, _ = measure(plain, function, (1280,))
    assert found["1280"] == pytest.approx([56, 62, 69], abs=1)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(measure, plain, dark):
    """WCAG AA on what the browser computed: 4.5 to 1, and no text under 11 pixels."""
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
      return {poor, count: count > 200};
    }"""
    found, _, _ = measure(plain, function, dark=dark)
    for one in found.values():
        assert one == {"poor": [], "count": True}
