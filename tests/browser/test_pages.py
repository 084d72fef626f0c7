"""Pages of reports and comparisons in Chromium: narrow and wide, light and dark, and asking for nothing."""

import numpy as np
import pytest
from page_checks import OPEN_FOLDS, assert_sound, list_requests, resize
from scored_reports import scored

from cxc_eccv.comparison import compare
from cxc_eccv.comparison.compared_models import ComparedModels
from cxc_eccv.comparison.published import eccv_caption_table
from cxc_eccv.comparison.published_join import join_scores
from cxc_eccv.presentation.thumbnails import thumbnails
from cxc_eccv.report.example_table import EXAMPLES_SCHEMA
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.pages import render_html
from cxc_eccv.report.query_cards import find_shown_files
from cxc_eccv.sources.download import sample_images


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
        scored(f"a name of some length {place}", {key: (ids, random.random(200) + shift, ids) for key in keys})
        for place, shift in enumerate((0, 0.05, 0.1, 0.4, 0.42, 0.8))
    ]
    return compare(*models, samples=500)


@pytest.fixture(scope="module")
def pages(html, comparison):
    """Every page of the core, by name."""
    table = eccv_caption_table()
    published = join_scores(table, table.keys, {})
    return {
        "report": html,
        "comparison": comparison.to_html(),
        "published": ComparedModels(published=(published,)).to_html(),
    }


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
