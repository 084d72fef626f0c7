"""The page of a comparison in headless Chromium: nothing overflows, and an interval covers its ranks."""

import numpy as np
import pytest
from scored_reports import scored

from cxc_eccv.comparison import compare
from cxc_eccv.report.pages import render_comparison

pytestmark = pytest.mark.slow

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


def test_nothing_overflows_and_bars_cover_the_ranks_of_their_intervals(visitor, comparison):
    page = visitor.open(render_comparison(comparison))
    page.assert_fitting(".scroll, nav, .hidden, .skip")
    bars = """[...document.querySelectorAll('.forest tbody tr')].map((row) => {
      const plot = row.querySelector('svg').getBoundingClientRect();
      const bar = row.querySelector('.whisker').getBoundingClientRect();
      return [(bar.left - plot.left) / plot.width * 6, (bar.right - plot.left) / plot.width * 6].map(Math.round);
    })"""
    assert page.run(bars) == [[row.low - 1, row.high] for row in comparison.ranks]
