"""The HTML report in headless Chromium: narrow and wide, light and dark, and asking for nothing."""

import pytest
from report_samples import sample_report

from cxc_eccv.demo.run import sample_images
from cxc_eccv.report.cards import SCHEMA, find_shown_files, thumbnails
from cxc_eccv.report.collect import collect_examples
from cxc_eccv.report.page import Page
from cxc_eccv.report.pages import render_html

pytestmark = pytest.mark.slow

OPEN_ALL = "for (const one of page.querySelectorAll('details')) one.open = true;"
WIDTHS = (320, 360, 390, 768, 1024, 1280)


@pytest.fixture(scope="module")
def content(sample_library):
    run, report = sample_report(sample_library)
    return report, collect_examples(run, report, sample_library)


@pytest.fixture(scope="module")
def html(content):
    """The page with thumbnails."""
    page = Page(*content)
    return render_html(page, thumbnails(sample_images(), find_shown_files(page.cards)))


def test_nothing_overflows_at_any_width(measure, html):
    function = f"""(window, page) => {{
      {OPEN_ALL}
      const width = page.documentElement.clientWidth;
      const clipped = (one) => one.closest('.scroll, nav, .hidden, .long, .skip');
      return {{
        width, scroll: page.documentElement.scrollWidth,
        outside: [...page.querySelectorAll('main *, header *, footer *')]
          .filter((one) => !clipped(one) && one.getBoundingClientRect().right > width + 1)
          .map((one) => one.outerHTML.slice(0, 120)),
      }};
    }}"""
    found, _, _ = measure(html, function, WIDTHS)
    for width in WIDTHS:
        assert found[str(width)] == {"width": width, "scroll": width, "outside": []}


def test_the_headline_has_an_axis_and_its_order_is_that_of_the_tasks(measure, html):
    """Numbers stand above and below, each at its line; at 390 pixels every second one, and none in another's way."""
    function = """(window, page) => {
      const chart = page.querySelector('.forest'), middle = (box) => (box.left + box.right) / 2;
      const lines = [...chart.querySelectorAll('tbody svg')[0].querySelectorAll('line')].slice(0, 5)
        .map((one) => one.getBoundingClientRect().left);
      const scales = [...chart.querySelectorAll('svg.scale')].map((scale) => [...scale.querySelectorAll('text')]
        .map((one, place) => ({label: one.textContent, box: one.getBoundingClientRect(), line: lines[place]}))
        .filter(({box}) => box.width));
      const cells = [...chart.querySelectorAll('thead th')].map((one) => one.getBoundingClientRect());
      return {
        labels: scales.map((scale) => scale.map(({label}) => label)),
        astray: scales.flat().filter(({box, line}) => Math.abs(middle(box) - line) > 1.5).length,
        overlapping: scales.flatMap((scale) => scale.slice(1).filter(({box}, at) => box.left < scale[at].box.right))
          .length,
        outside: scales.flat().filter(({box}) => box.left < cells[2].left || box.right > cells[2].right).length,
        chart: [...new Set([...chart.querySelectorAll('th[scope=rowgroup]')].map((one) => one.firstChild.data.trim()))],
        cards: [...page.querySelectorAll('.cards h3')]
          .map((one) => ({name: one.innerText, box: one.getBoundingClientRect()}))
          .sort((a, b) => a.box.top - b.box.top || a.box.left - b.box.left).map(({name}) => name),
      };
    }"""
    found, _, _ = measure(html, function)
    for width, labels in (("390", ["0%", "50%", "100%"]), ("1280", ["0%", "25%", "50%", "75%", "100%"])):
        page = found[width]
        assert page.pop("labels") == [labels, labels]
        assert page.pop("chart") == page.pop("cards")
        assert page == {"astray": 0, "overlapping": 0, "outside": 0}


def test_tables_of_scores_fit_and_no_number_is_broken(measure, html):
    """Four columns of CxC at 390 pixels; a number stays with its sign and its %, and on its line."""
    function = f"""(window, page) => {{
      {OPEN_ALL}
      const texts = [], walker = page.createTreeWalker(page.querySelector('main'), 4);
      while (walker.nextNode()) texts.push(walker.currentNode);
      const broken = texts.filter((text) => !text.parentElement.closest('code, dd, .id')).flatMap((text) =>
        [...text.data.matchAll(/(± ?|[-<>])?[\\d,.]*\\d ?%?/g)].filter((number) => {{
          const range = page.createRange();
          range.setStart(text, number.index);
          range.setEnd(text, number.index + number[0].trimEnd().length);
          return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1;
        }}).map((number) => number[0]));
      const tables = [...page.querySelectorAll('.cards .scroll, #caveats .scroll')];
      const wide = tables.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText);
      return {{broken, wide, tables: tables.length}};
    }}"""
    found, _, _ = measure(html, function, (390, 768, 1280))
    for page in found.values():
        assert page == {"broken": [], "wide": [], "tables": 9}


def test_it_asks_for_nothing_and_complains_of_nothing(measure, html):
    function = """(window, page) => ({
      images: page.images.length,
      broken: [...page.images].filter((one) => !one.naturalWidth).length,
      scripts: page.scripts.length,
      loaded: window.performance.getEntriesByType('resource')
        .filter((one) => !one.name.startsWith('data:')).map((one) => one.name),
    })"""
    found, requests, console = measure(html, function, (1280,))
    assert found["1280"].pop("images") > 50
    assert found["1280"] == {"broken": 0, "scripts": 0, "loaded": []}
    assert set(requests) <= {"/harness.html", "/report.html", "/favicon.ico"}
    assert console == []


def test_markup_in_a_caption_does_not_run(measure, content):
    report, examples = content
    rows = examples.to_pylist()
    attack = "<script>parent.ran = 1</script><img src=x onerror='parent.ran = 1'><svg onload='parent.ran = 1'>"
    for row in rows:
        row["item_texts"] = row["query_texts"] = [attack]
    page = render_html(Page(report, type(examples).from_pylist(rows, schema=SCHEMA)))
    function = "(window, page) => ({ran: 'ran' in window.parent, shown: page.body.innerText.includes('<script>')})"
    found, requests, _ = measure(page, function, (1280,))
    assert found["1280"] == {"ran": False, "shown": True}
    assert "/x" not in requests


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(measure, html, dark):
    """WCAG AA on what the browser computed: 4.5 to 1, for large text 3 to 1; no text under 11 pixels."""
    function = f"""(window, page) => {{
      {OPEN_ALL}
      const parse = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
      const solid = (colour) => parse(colour).length === 3 || parse(colour)[3] === 1;
      const light = (colour) => {{
        const [r, g, b] = parse(colour).map((one) => one / 255)
          .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      }};
      const ground = (one) => {{
        while (one && !solid(window.getComputedStyle(one).backgroundColor)) one = one.parentElement;
        return window.getComputedStyle(one || page.documentElement).backgroundColor;
      }};
      const poor = [];
      let count = 0;
      for (const one of page.body.querySelectorAll('*')) {{
        const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || one.closest('svg, .hidden, .long, .short, .skip')) continue;
        const style = window.getComputedStyle(one), size = parseFloat(style.fontSize);
        const pair = [light(style.color), light(ground(one))].sort((a, b) => b - a);
        const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
        const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        if (ratio < (large ? 3 : 4.5) || size < 11) poor.push([ratio, size, one.outerHTML.slice(0, 100)]);
        count += 1;
      }}
      return {{poor, count, ground: window.getComputedStyle(page.body).backgroundColor}};
    }}"""
    found, _, _ = measure(html, function, dark=dark)
    for one in found.values():
        assert one["poor"] == []
        assert one["count"] > 500
        assert one["ground"] == ("rgb(15, 19, 24)" if dark else "rgb(246, 247, 249)")


def test_the_keyboard_reaches_everything(measure, html):
    function = """(window, page) => {
      const skip = page.querySelector('.skip');
      const hidden = skip.getBoundingClientRect().bottom <= 0;
      skip.focus();
      const visible = skip.getBoundingClientRect().top >= 0;
      const summaries = [...page.querySelectorAll('summary')];
      const reached = summaries.filter((one) => { one.focus(); return page.activeElement === one; }).length;
      const first = page.querySelector('details:not([open])');
      first.querySelector('summary').click();
      const regions = [...page.querySelectorAll('.scroll')].filter((one) => one.tabIndex !== 0).length;
      return {hidden, visible, unreached: summaries.length - reached, opened: first.open, regions};
    }"""
    found, _, _ = measure(html, function, (1280,))
    assert found["1280"] == {"hidden": True, "visible": True, "unreached": 0, "opened": True, "regions": 0}


def test_labels_of_curves_stand_inside_their_charts(measure, html):
    function = """(window, page) => [...page.querySelectorAll('svg.chart')].map((chart) => {
      const box = chart.getBoundingClientRect();
      const texts = [...chart.querySelectorAll('text')].map((one) => one.getBoundingClientRect());
      const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 3 || b.bottom <= a.top + 3;
      return {
        outside: texts.filter((one) => one.left < box.left || one.right > box.right || one.bottom > box.bottom).length,
        overlapping: texts.filter((a, i) => texts.some((b, j) => i < j && !apart(a, b))).length,
      };
    })"""
    found, _, _ = measure(html, function)
    for charts in found.values():
        assert charts == [{"outside": 0, "overlapping": 0}] * 5
