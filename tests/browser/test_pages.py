"""Pages of reports and comparisons in Chromium: narrow and wide, light and dark, and asking for nothing."""

import numpy as np
import pytest
from page_checks import OPEN_FOLDS, assert_sound, list_complaints, list_requests, resize
from scored_reports import scored

from cxc_eccv.comparison import compare, join
from cxc_eccv.comparison.compared_models import ComparedModels
from cxc_eccv.comparison.published import eccv_caption_table, printed_table
from cxc_eccv.presentation.thumbnails import thumbnails
from cxc_eccv.report import Report
from cxc_eccv.report.example_table import EXAMPLES_SCHEMA
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.pages import render_html
from cxc_eccv.report.query_cards import find_shown_files
from cxc_eccv.sources.download import sample_images
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance


@pytest.fixture(scope="module")
def html(sample_content):
    """The page with thumbnails."""
    page = Page(*sample_content)
    return render_html(page, thumbnails(sample_images(), find_shown_files(page.cards)))


@pytest.fixture(scope="module")
def comparison():
    ids = np.arange(200)
    random = np.random.default_rng(0)
    keys = ("coco_5k/i2t/recall_at_1", "cxc/i2t/recall_at_1", "eccv_caption/i2t/map_at_r")
    models = [
        scored(
            f"a name of some length {place}",
            {key: (ids, np.minimum(random.random(200) + shift, 1), ids) for key in keys},
        )
        for place, shift in enumerate((0, 0.05, 0.1, 0.4, 0.42, 0.8))
    ]
    return compare(*models, samples=500)


@pytest.fixture(scope="module")
def pages(html, comparison):
    """Every page of the core, by name."""
    return {"report": html, "comparison": comparison.to_html(), "published": join_own_model().to_html()}


def join_own_model():
    """A model with the scores of SGR, a little better, among the models of ECCV Caption and of open_clip."""
    scores = eccv_caption_table().scores
    values = {score.key: score.value + 0.001 for score in scores if score.model == "SGR" and score.key.count("/") == 2}
    rows = [
        Result(*key.split("/"), value=value, n_queries=5000, low=value - 0.01, high=value + 0.012)
        for key, value in values.items()
    ]
    facts = from_json(Provenance, {"split": "test", "data": {"edition": "official", "files": {}}})
    own = {"mine": Report(tuple(rows), {}, facts)}
    papers = (eccv_caption_table(), *map(printed_table, ("open_clip", "pcme_plus_plus")))
    return ComparedModels(published=tuple(join(paper, own) for paper in papers))


READ_COLUMN = """(column) => [...document.querySelector('.sortable tbody').rows]
  .map((row) => row.cells[column].innerText)"""


def test_click_orders_the_rows_by_a_column(open_page, pages):
    """R@1 best first, then worst first; the own row goes along, and the numbers of equal models keep their order."""
    page = open_page(pages["published"])
    before = page.evaluate(READ_COLUMN, 0)
    heading = page.locator(".sortable").first.get_by_role("button", name="COCO 5K R@1", exact=True)
    column = page.evaluate(
        "[...document.querySelectorAll('.sortable th[scope=col]')].findIndex((one) => "
        "one.innerText.replaceAll(/\\s+/g, ' ').trim() === 'COCO 5K R@1')"
    )
    heading.click()
    values = [float(value) for value in page.evaluate(READ_COLUMN, column)]
    assert values == sorted(values, reverse=True)
    assert page.evaluate(READ_COLUMN, 0)[0] == "BLIP"
    assert page.locator(".sortable [aria-sort=descending]").first.inner_text().startswith("COCO 5K")
    heading.click()
    assert [float(value) for value in page.evaluate(READ_COLUMN, column)] == values[::-1]
    assert page.locator(".own th").first.inner_text() == "mine"
    assert sorted(page.evaluate(READ_COLUMN, 0)) == sorted(before)
    assert list_complaints(page) == []


def test_models_without_a_value_come_last(open_page, pages):
    page = open_page(pages["published"])
    table = page.locator(".sortable").last
    for _ in range(2):
        table.get_by_role("button", name="RSUM").click()
        values = table.evaluate("(table) => [...table.tBodies[0].rows].map((row) => row.cells[7].innerText)")
        empty = [value == "\N{EM DASH}" for value in values]
        assert empty == sorted(empty)
        assert any(empty)


def test_long_tables_are_25_rows_high(open_page, pages):
    """Their headings stay in sight, and their notes stand below them, apart from the last row."""
    measure = """() => [...document.querySelectorAll('.tall')].map((box) => {
      box.scrollTop = 300;
      const rows = [...box.querySelectorAll('tbody tr')].map((row) => row.getBoundingClientRect().height);
      const head = box.querySelector('thead th').getBoundingClientRect(), frame = box.getBoundingClientRect();
      const note = box.nextElementSibling.getBoundingClientRect();
      return [Math.floor((frame.height - head.height) / Math.min(...rows)), Math.round(head.top - frame.top),
              Math.round(note.top - frame.bottom) >= 10];
    })"""
    page = open_page(pages["published"], width=1280)
    tables = page.evaluate(measure)
    assert len(tables) == 2
    for rows, head, is_apart in tables:
        assert 23 <= rows <= 26
        assert (head, is_apart) == (0, True)
    assert page.evaluate("document.documentElement.scrollHeight") < 5_000


def test_sort_key_stays_in_sight_on_a_phone(open_page, pages):
    """The name and the value by which rows are ordered, wherever the table is scrolled."""
    measure = """(left) => {
      const box = document.querySelector('.sortable').parentElement, frame = box.getBoundingClientRect();
      box.scrollLeft = left;
      const [name, key] = ['th[scope=row]', 'td.key-column']
        .map((one) => box.querySelector(one).getBoundingClientRect());
      return [name.left >= frame.left - 1, key.left >= name.right - 1, key.right <= frame.right + 1];
    }"""
    page = open_page(pages["published"], width=390)
    for left in (0, 60, 10_000):
        assert page.evaluate(measure, left) == [True, True, True]


@pytest.mark.parametrize(("name", "least_texts"), [("report", 500), ("comparison", 100), ("published", 100)])
def test_page_is_sound_in_a_browser(open_page, pages, name, least_texts):
    assert_sound(open_page(pages[name]), least_texts)


def test_headline_chart_has_an_axis_in_task_order(open_page, html):
    """Numbers stand above and below, each at its line; at 390 pixels every second one, and none in another's way."""
    measure = """(() => {
      const chart = document.querySelector('.forest'), middle = (box) => (box.left + box.right) / 2;
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
        cards: [...document.querySelectorAll('.cards h3')]
          .map((one) => ({name: one.innerText, box: one.getBoundingClientRect()}))
          .sort((a, b) => a.box.top - b.box.top || a.box.left - b.box.left).map(({name}) => name),
      };
    })()"""
    page = open_page(html)
    for width, labels in ((390, ["0%", "50%", "100%"]), (1280, ["0%", "25%", "50%", "75%", "100%"])):
        resize(page, width)
        found = page.evaluate(measure)
        assert found.pop("labels") == [labels, labels]
        assert found.pop("chart") == found.pop("cards")
        assert found == {"astray": 0, "overlapping": 0, "outside": 0}


def test_score_tables_fit_without_broken_numbers(open_page, html):
    """Four columns of CxC at 390 pixels; a number stays with its sign and its %, and on its line."""
    measure = """(() => {
      const texts = [], walker = document.createTreeWalker(document.querySelector('main'), 4);
      while (walker.nextNode()) texts.push(walker.currentNode);
      const broken = texts.filter((text) => !text.parentElement.closest('code, dd, .id')).flatMap((text) =>
        [...text.data.matchAll(/(± ?|[-<>])?[\\d,.]*\\d ?%?/g)].filter((number) => {
          const range = document.createRange();
          range.setStart(text, number.index);
          range.setEnd(text, number.index + number[0].trimEnd().length);
          return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1;
        }).map((number) => number[0]));
      const tables = [...document.querySelectorAll('.cards .scroll, #caveats .scroll')];
      const wide = tables.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText);
      return {broken, wide, tables: tables.length};
    })()"""
    page = open_page(html)
    page.evaluate(OPEN_FOLDS)
    for width in (390, 768, 1280):
        resize(page, width)
        assert page.evaluate(measure) == {"broken": [], "wide": [], "tables": 9}


def test_report_has_images_and_no_scripts(open_page, html):
    page = open_page(html)
    assert page.evaluate("document.images.length") > 50
    assert page.evaluate("document.scripts.length") == 0


def test_markup_in_a_caption_does_not_run(open_page, sample_content):
    report, examples = sample_content
    rows = examples.to_pylist()
    attack = "<script>window.ran = 1</script><img src=x onerror='window.ran = 1'><svg onload='window.ran = 1'>"
    for row in rows:
        row["item_texts"] = row["query_texts"] = [attack]
    page = open_page(render_html(Page(report, type(examples).from_pylist(rows, schema=EXAMPLES_SCHEMA))))
    assert page.evaluate("['ran' in window, document.body.innerText.includes('<script>')]") == [False, True]
    assert list_requests(page) == []


def test_the_keyboard_reaches_everything(open_page, html):
    measure = """(() => {
      const skip = document.querySelector('.skip');
      const hidden = skip.getBoundingClientRect().bottom <= 0;
      skip.focus();
      const visible = skip.getBoundingClientRect().top >= 0;
      const summaries = [...document.querySelectorAll('summary')];
      const reached = summaries.filter((one) => { one.focus(); return document.activeElement === one; }).length;
      const first = document.querySelector('details:not([open])');
      first.querySelector('summary').click();
      const regions = [...document.querySelectorAll('.scroll')].filter((one) => one.tabIndex !== 0).length;
      return {hidden, visible, unreached: summaries.length - reached, opened: first.open, regions};
    })()"""
    found = open_page(html).evaluate(measure)
    assert found == {"hidden": True, "visible": True, "unreached": 0, "opened": True, "regions": 0}


def test_labels_of_curves_stand_inside_their_charts(open_page, html):
    measure = """[...document.querySelectorAll('svg.chart')].map((chart) => {
      const box = chart.getBoundingClientRect();
      const texts = [...chart.querySelectorAll('text')].map((one) => one.getBoundingClientRect());
      const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 3 || b.bottom <= a.top + 3;
      return {
        outside: texts.filter((one) => one.left < box.left || one.right > box.right || one.bottom > box.bottom).length,
        overlapping: texts.filter((a, i) => texts.some((b, j) => i < j && !apart(a, b))).length,
      };
    })"""
    page = open_page(html)
    for width in (390, 1280):
        resize(page, width)
        assert page.evaluate(measure) == [{"outside": 0, "overlapping": 0}] * 5


def test_bars_cover_the_ranks_of_their_intervals(open_page, comparison):
    page = open_page(comparison.to_html())
    bars = """[...document.querySelectorAll('.forest tbody tr')].map((row) => {
      const plot = row.querySelector('svg').getBoundingClientRect();
      const bar = row.querySelector('.whisker').getBoundingClientRect();
      return [(bar.left - plot.left) / plot.width * 6, (bar.right - plot.left) / plot.width * 6].map(Math.round);
    })"""
    assert page.evaluate(bars) == [[row.low - 1, row.high] for row in comparison.ranks]


@pytest.mark.parametrize(("name", "n_charts"), [("published", 1), ("comparison", 1), ("report", 1)])
def test_drawn_charts_hold_their_texts(open_page, pages, name, n_charts):
    """One of two sizes is shown; no text leaves it, none covers another, and all are large enough to read."""
    measure = """() => [...document.querySelectorAll('svg.drawing')].filter((one) => one.checkVisibility())
      .map((chart) => {
      const box = chart.getBoundingClientRect();
      const texts = [...chart.querySelectorAll('text')].map((one) => [one.textContent, one.getBoundingClientRect()]);
      const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 4
        || b.bottom <= a.top + 4;
      const outside = texts.filter(([, one]) => one.left < box.left - 1 || one.right > box.right + 1
        || one.top < box.top - 1 || one.bottom > box.bottom + 1);
      const covered = texts.filter(([, a], i) => texts.some(([, b], j) => i < j && !apart(a, b)));
      const small = chart.getScreenCTM().a * 13 < 11;
      return {outside: outside.map(([text]) => text), covered: covered.map(([text]) => text), small};
    })"""
    page = open_page(pages[name])
    for width in (390, 768, 1280):
        resize(page, width)
        assert page.evaluate(measure) == [{"outside": [], "covered": [], "small": False}] * n_charts, width
