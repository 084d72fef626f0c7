"""The page of a comparison in headless Chromium: nothing overflows, and an interval covers its ranks."""

import numpy as np
import pytest
from scored_reports import scored

from cxc_eccv.comparison import compare
from cxc_eccv.report.compared import render_comparison

pytestmark = pytest.mark.slow

WIDTHS = (320, 390, 1280)
IDS = np.arange(200)


@pytest.fixture(scope="module")
def comparison():
    random = np.random.default_rng(0)
    keys = ("coco_5k/i2t/recall_at_1", "cxc/i2t/recall_at_1", "eccv_caption/i2t/map_at_r")
    models = [
        scored(f"a name of some length {place}", {key: (IDS, random.random(200) + shift, IDS) for key in keys})
        for place, shift in enumerate((0, 0.05, 0.1, 0.4, 0.42, 0.8))
    ]
    return compare(*models, samples=500)


def test_nothing_overflows_at_any_width(measure, comparison):
    function = """(window, page) => {
      for (const one of page.querySelectorAll('details')) one.open = true;
      const width = page.documentElement.clientWidth;
      const clipped = (one) => one.closest('.scroll, nav, .hidden, .skip');
      return {width, scroll: page.documentElement.scrollWidth,
        outside: [...page.querySelectorAll('main *, header *, footer *')]
          .filter((one) => !clipped(one) && one.getBoundingClientRect().right > width + 1)
          .map((one) => one.outerHTML.slice(0, 120))};
    }"""
    found, _, _ = measure(render_comparison(comparison), function, WIDTHS)
    for width in WIDTHS:
        assert found[str(width)] == {"width": width, "scroll": width, "outside": []}


def test_bars_cover_the_ranks_of_their_intervals(measure, comparison):
    function = """(window, page) => [...page.querySelectorAll('.forest tbody tr')].map((row) => {
      const plot = row.querySelector('svg').getBoundingClientRect();
      const bar = row.querySelector('.whisker').getBoundingClientRect();
      return [(bar.left - plot.left) / plot.width * 6, (bar.right - plot.left) / plot.width * 6].map(Math.round);
    })"""
    found, _, _ = measure(render_comparison(comparison), function, (1280,))
    assert found["1280"] == [[row.low - 1, row.high] for row in comparison.ranks]
