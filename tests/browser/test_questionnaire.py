"""The questionnaire in a real browser: by keyboard alone, kept and gone on with, and nothing typed or shown can run."""

import json

import pytest

from cxc_eccv.annotation.asking.questionnaire import render_questionnaire
from cxc_eccv.annotation.asking.questions import build_sheets
from cxc_eccv.annotation.asking.schemes import schemes

pytestmark = pytest.mark.slow

HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


@pytest.fixture
def page_of(sample_library):
    def make(name, number=4, **options):
        content = sample_library.karpathy("test")
        images, captions = content.image_ids.tolist(), content.caption_ids.tolist()
        pairs = [(images[place], captions[-place - 1]) for place in range(number)]
        sheets = build_sheets(pairs, content, positive=(), near=(), **options)
        files = {own.file_name: PIXEL for sheet in sheets for own in sheet}
        return render_questionnaire(sheets, schemes()[name], files), sheets

    return make


def press(*keys):
    """JavaScript that presses keys, and then gives the page's lines."""
    return f"""(window, document) => {{
      const press = (key) => document.activeElement.dispatchEvent(
        new window.KeyboardEvent("keydown", {{key, bubbles: true, cancelable: true}}));
      document.getElementById("worker").value = "w1 <b>";
      for (const key of {json.dumps(keys)}) press(key);
      return {{
        lines: window.lines().map((line) => JSON.parse(line)), ran: window.ran ?? null,
        place: document.getElementById("place").textContent, warning: document.getElementById("warning").textContent,
        wide: document.documentElement.scrollWidth > window.innerWidth,
      }};
    }}"""


def test_four_answers_with_their_reasons(measure, page_of):
    page, sheets = page_of("eccv")
    keys = ("Enter", "1", "ArrowRight", "2", "b", "Enter", "3", "c", "f", "ArrowRight", "4", "ArrowRight", "2")
    found, requests, console = measure(page, press(*keys), widths=(1280,))
    asked = [own for sheet in sheets for own in sheet]
    told = found["1280"]["lines"]
    assert [own["pair_id"] for own in told] == [own.pair_id for own in asked[:4]]
    assert [own["answer"] for own in told] == ["yes", "partially_yes", "mostly_no", "no"]
    assert [own["details"] for own in told] == [
        {},
        {"shortcomings": ["not_in_caption"]},
        {"shortcomings": ["wrong_description"], "errors": ["color"]},
        {},
    ]
    assert {own["worker"] for own in told} == {"w1 <b>"}
    assert found["1280"]["place"] == "question 5 of 6, 4 answered"
    assert not console
    assert not [path for path in requests if "favicon" not in path and not path.endswith(".html")]


def test_answers_are_kept_and_gone_on_with(measure, page_of):
    page, _ = page_of("eccv")
    found, _, _ = measure(page, press("Enter", "1", "ArrowRight"), widths=(1280, 390))
    assert found["1280"]["place"] == "question 2 of 6, 1 answered"
    assert found["390"]["place"] == "question 3 of 6, 2 answered"
    assert not found["390"]["wide"]


def test_a_number_on_the_scale_and_two_criteria(measure, page_of):
    found, _, _ = measure(page_of("cxc")[0], press("Enter", "ArrowUp", "ArrowUp", "ArrowUp"), widths=(1280,))
    assert [own["answer"] for own in found["1280"]["lines"]] == [pytest.approx(2.8)]
    found, _, _ = measure(page_of("entailment")[0], press("Enter", "1", "4", "Enter", "1"), widths=(390,))
    assert [own["answer"] for own in found["390"]["lines"]] == [{"describes": True, "follows": False}]
    assert not found["390"]["wide"]


def test_nobody_begins_without_a_name(measure, page_of):
    script = press("Enter").replace('"w1 <b>"', '"  "')
    found, _, _ = measure(page_of("eccv")[0], script, widths=(390,))
    assert "name or number" in found["390"]["warning"]
    assert not found["390"]["lines"]


def test_nothing_shown_or_typed_runs(measure, page_of, monkeypatch):
    monkeypatch.setattr("cxc_eccv.annotation.asking.questions._in_one_line", lambda text: HOSTILE)
    page, _ = page_of("entailment")
    script = press("Enter", "1", "3").replace('"w1 <b>"', json.dumps(HOSTILE.replace("</script>", "<\\/script>")))
    found, _, console = measure(page, script.replace("</script>", "<\\/script>"), widths=(1280,))
    assert found["1280"]["ran"] is None
    assert found["1280"]["lines"][0]["caption"] == HOSTILE
    assert not console
