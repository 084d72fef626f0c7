"""report.json as somebody edited it: one strict reading for report, compare, tables and submissions."""

import json

import pytest
from changed_files import places_of, replaced
from hypothesis import given, settings
from hypothesis import strategies as st

from cxc_eccv.comparison.paper_tables import PaperTables
from cxc_eccv.errors import DataError
from cxc_eccv.report import Report
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.pages import render_html, render_markdown
from cxc_eccv.types import Bounds, RatingBin, Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance

pytestmark = pytest.mark.thorough

SHA = "a" * 64
FACTS = {
    "split": "test",
    "model": "CLIP",
    "confidence": 0.95,
    "similarity": "cosine",
    "package": {"name": "cxc_eccv", "version": "1"},
    "data": {
        "edition": "official",
        "version": "1",
        "fingerprint": SHA,
        "files": {"sts_test": SHA},
        "modified": {"sts_test": {"expected": SHA, "found": SHA}},
    },
    "run": {"file": "clip.npz", "directions": {"i2t": {"shallowest": 10}}},
    "labels": {"sources": ["coco", "mine"], "files": {"mine": {"version": "1", "sha256": SHA}}},
    "restriction": {"limit": 200, "images": {"used": 200, "of": 5000}},
    "unjudged": {"model": "judge", "pairs": {"entailment/i2t": 3}, "cautions": ["Trained on val."]},
}
RESULTS = (
    Result("coco_5k", "i2t", "recall_at_1", 0.5, 5000, 0.48, 0.52, 3, None, {"k": 1}, Bounds(0.4, 0.6, 3, 9)),
    Result("eccv_caption", "i2t", "map_at_r", 0.3, 1261, coverage=0.5),
    Result("coco_5k", "t2i", "median_rank", 2.0, 25000),
)
BINS = {"cxc/sts": (RatingBin(0.0, 0.5, 3, 0.1, 0.2, 0.3), RatingBin(0.5, 1.0, 1, 0.4, 0.4, 0.4))}
REPORT = Report(RESULTS, {"cxc": "no images"}, from_json(Provenance, FACTS), similarity_by_rating=BINS)
CONTENT = json.loads(REPORT.to_json())
STRANGE = [
    None,
    True,
    [],
    {},
    [None],
    {"a": None},
    "",
    "\x1b[31m",
    "x" * 20_000,
    -1,
    0,
    7,
    0.5,
    -0.5,
    1.5,
    9.2e20,
    1e308,
]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(place=st.sampled_from(list(places_of(CONTENT))), new=st.sampled_from(STRANGE))
def test_an_edited_report_is_refused_or_shown(place, new):
    message = ""
    try:
        report = Report.from_json(json.dumps(replaced(CONTENT, place, new)))
    except DataError as error:
        message = str(error)
    if message:
        assert len(message) < 12_000
        return
    page = Page(report)
    shown = render_markdown(page) + render_html(page) + str(report) + repr(report)
    tables = PaperTables({report.name or "a": report}).tables()
    assert "nan" not in str(tables)
    assert "e+20" not in shown


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e400", "1" + "0" * 5000])
def test_a_number_that_is_none(number):
    with pytest.raises(DataError):
        Report.from_json(json.dumps(CONTENT).replace("0.3,", f"{number},"))
