"""The questionnaire in a real browser: by keyboard alone, kept and gone on with, and nothing typed or shown can run."""

import json

import numpy as np
import pyarrow as pa
import pytest

from cxc_eccv.studies.asking.answers import read_answers
from cxc_eccv.studies.asking.questionnaire import Handout, describe_questions, render_questionnaire
from cxc_eccv.studies.asking.questions import Questionnaire, build_sheets
from cxc_eccv.studies.asking.schemes import schemes

pytestmark = pytest.mark.slow

HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


@pytest.fixture
def page_of(sample_library):
    def make(name, number=4, image=PIXEL):
        content = sample_library.karpathy("test")
        pairs = pa.table({"image_id": content.image_ids[:number], "caption_id": content.caption_ids[::-1][:number]})
        nothing = np.empty(0, dtype=np.int64)
        sheets = build_sheets(
            pairs, content, positive=(nothing, nothing), is_near=lambda images, _: np.zeros(images.size, bool)
        )
        images = {own.file_name: image for sheet in sheets for own in sheet}
        scheme = schemes()[name]
        return render_questionnaire(
            describe_questions([Questionnaire(scheme, sheets)], images), Handout(scheme)
        ), sheets

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
    monkeypatch.setattr("cxc_eccv.studies.asking.questions._in_one_line", lambda text: HOSTILE)
    page, _ = page_of("entailment")
    script = press("Enter", "1", "3").replace('"w1 <b>"', json.dumps(HOSTILE.replace("</script>", "<\\/script>")))
    found, _, console = measure(page, script.replace("</script>", "<\\/script>"), widths=(1280,))
    assert found["1280"]["ran"] is None
    assert found["1280"]["lines"][0]["caption"] == HOSTILE
    assert not console


def test_what_the_page_saves_is_read(measure, page_of, tmp_path):
    """By keys alone through all questions; the file is the one that the browser would download."""
    keys = {"eccv": ("3", "c", "f"), "cxc": ("PageUp",), "entailment": ("1", "4")}
    for name, some in keys.items():
        page, sheets = page_of(name)
        script = """async (window, document) => {
          const press = (key) => document.activeElement.dispatchEvent(
            new window.KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
          let saved = null, file = null;
          window.URL.createObjectURL = (blob) => { saved = blob; return "blob:none"; };
          window.HTMLAnchorElement.prototype.click = function () { file = this.download; };
          document.getElementById("worker").value = "  W 1 ";
          press("Enter");
          for (let place = 0; place < 6; place++) { for (const key of KEYS) press(key); press("ArrowRight"); }
          press("s");
          return {text: await saved.text(), file, warning: document.getElementById("warning").textContent};
        }"""
        found, _, console = measure(page, script.replace("KEYS", json.dumps(some)), widths=(390,))
        path = tmp_path / "answers.jsonl"
        path.write_text(found["390"]["text"], encoding="utf-8")
        table = read_answers([path], [Questionnaire(schemes()[name], sheets)]).answers
        assert table["pair_id"].to_pylist() == [own.pair_id for sheet in sheets for own in sheet]
        assert set(table["worker"].to_pylist()) == {"w 1"}
        assert len(set(table["answer"].to_pylist())) == 1
        assert found["390"]["file"].endswith("-W-1.jsonl")
        assert found["390"]["warning"] == "Saved: all questions are answered. Thank you."
        assert not console


def test_every_control_has_a_name_and_keeps_the_focus(measure, page_of):
    script = """(window, document) => {
      document.getElementById("worker").value = "w1";
      window.begin();
      const unnamed = () => [...document.querySelectorAll("input, textarea, button")].filter(
        (one) => !one.hidden && !(one.labels?.length || one.textContent || one.ariaLabel)).length;
      const found = [unnamed()];
      const second = document.querySelectorAll("#form input")[1];
      second.focus();
      second.click();
      const mine = document.activeElement;
      found.push(unnamed(), mine.dataset.key, mine.checked, mine.isConnected && mine !== second);
      window.move(1);
      found.push(document.activeElement.id, document.querySelector("main h2").textContent !== "");
      found.push(document.documentElement.lang, document.querySelectorAll("main").length);
      return found;
    }"""
    for name in ("eccv", "entailment"):
        found, _, _ = measure(page_of(name)[0], script, widths=(1280,))
        assert found["1280"] == [0, 0, "2", True, True, "sentence", True, "en", 1]


def test_an_image_that_cannot_be_shown_cannot_be_judged(measure, page_of):
    script = """async (window, document) => {
      document.getElementById("worker").value = "w1";
      window.begin();
      await new Promise((done) => setTimeout(done, 300));
      document.dispatchEvent(new window.KeyboardEvent("keydown", {key: "1"}));
      return [window.lines().length, document.getElementById("broken").textContent];
    }"""
    found, _, _ = measure(page_of("eccv", image="none.jpg")[0], script, widths=(1280,))
    number, told = found["1280"]
    assert number == 0
    assert "cannot be shown" in told


def test_who_comes_back_finds_their_name_and_the_first_question_left(measure, page_of):
    script = """(window, document) => {
      const name = document.getElementById("worker").value;
      document.getElementById("worker").value = "w1";
      window.begin();
      window.move(3);
      document.dispatchEvent(new window.KeyboardEvent("keydown", {key: "1"}));
      document.dispatchEvent(new window.KeyboardEvent("keydown", {key: "u"}));
      return [name, document.getElementById("place").textContent];
    }"""
    found, _, _ = measure(page_of("eccv")[0], script, widths=(1280, 390))
    assert found == {"1280": ["", "question 1 of 6, 1 answered"], "390": ["w1", "question 1 of 6, 1 answered"]}


def test_two_tabs_have_the_same_answers(measure, page_of):
    script = """async (window, document) => {
      const frame = window.parent.document.createElement("iframe");
      frame.src = "/report.html";
      await new Promise((done) => { frame.onload = done; window.parent.document.body.append(frame); });
      const tabs = [window, frame.contentWindow], told = [];
      const wait = () => new Promise((done) => setTimeout(done, 300));
      for (const tab of tabs) { tab.document.getElementById("worker").value = "w1"; tab.begin(); }
      const press = (tab, key) => tab.document.dispatchEvent(new tab.KeyboardEvent("keydown", {key}));
      press(tabs[0], "1");
      await wait();
      press(tabs[1], "ArrowRight");
      press(tabs[1], "4");
      await wait();
      press(tabs[0], "2");  // not whole without its reason
      press(tabs[0], "a");
      await wait();
      const place = Object.keys(window.localStorage).find((name) => name.endsWith("/of w1"));
      const kept = JSON.parse(window.localStorage.getItem(place)).given;
      for (const tab of tabs) told.push(tab.lines().map((line) => JSON.parse(line).answer));
      return [told, Object.values(kept).filter((one) => one.answer).length,
        frame.contentDocument.getElementById("place").textContent];
    }"""
    found, _, console = measure(page_of("eccv")[0], script, widths=(1280,))
    both = ["partially_yes", "no"]
    assert found["1280"] == [[both, both], 2, "question 2 of 6, 2 answered"]
    assert not console


@pytest.mark.parametrize("why", ["full", "unavailable"])
def test_where_the_browser_keeps_nothing_it_says_so_and_the_answers_can_be_saved(measure, page_of, why):
    script = """async (window, document) => {
      const never = () => { throw new window.DOMException("no", "QuotaExceededError"); };
      if (WHY === "full") window.Storage.prototype.setItem = never;
      else Object.defineProperty(window, "localStorage", {get: never});
      let saved = null;
      window.URL.createObjectURL = (blob) => { saved = blob; return "blob:none"; };
      window.HTMLAnchorElement.prototype.click = () => {};
      document.getElementById("worker").value = "w1";
      window.begin();
      const press = (key) => document.dispatchEvent(new window.KeyboardEvent("keydown", {key}));
      for (let place = 0; place < 6; place++) { press("1"); press("ArrowRight"); }
      const warning = document.getElementById("warning").textContent;
      press("s");
      return [warning, (await saved.text()).trim().split("\\n").length, document.getElementById("warning").textContent];
    }"""
    found, _, console = measure(page_of("eccv")[0], script.replace("WHY", json.dumps(why)), widths=(390,))
    warning, number, told = found["390"]
    assert "keeps nothing: save your answers" in warning
    assert (number, told) == (6, "Saved: all questions are answered. Thank you.")
    assert not console


def test_reading_the_instructions_takes_no_time_of_the_first_question(measure, page_of):
    script = """async (window, document) => {
      await new Promise((done) => setTimeout(done, 3000));
      document.getElementById("worker").value = "w1";
      window.begin();
      document.dispatchEvent(new window.KeyboardEvent("keydown", {key: "1"}));
      return JSON.parse(window.lines()[0]).seconds;
    }"""
    found, _, _ = measure(page_of("eccv")[0], script, widths=(1280,))
    assert found["1280"] < 2


def test_a_name_with_signs_that_cannot_be_seen_is_not_taken(measure, page_of):
    script = press("Enter").replace('"w1 <b>"', '"w\\u200b1"')
    found, _, _ = measure(page_of("eccv")[0], script, widths=(390,))
    assert "cannot be seen" in found["390"]["warning"]


@pytest.mark.parametrize("dark", [False, True])
def test_all_texts_stand_out_from_their_ground(measure, page_of, dark):
    """WCAG's 4.5 to 1, with the opacity of what is quiet; and nothing is wider than a phone."""
    script = """(window, document) => {
      document.getElementById("worker").value = "w1";
      const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
      const light = (color) => color.slice(0, 3).map((one) => one / 255).map(
        (one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
        .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
      const ratios = [];
      const look = () => {
        const ground = rgb(window.getComputedStyle(document.body).backgroundColor);
        for (const one of document.querySelectorAll("p, h1, h2, li, legend, span, blockquote, label")) {
          if (!one.textContent.trim() || one.closest("button") || !one.checkVisibility()) continue;
          let seen = 1;
          for (let up = one; up; up = up.parentElement) seen *= Number(window.getComputedStyle(up).opacity);
          const mixed = rgb(window.getComputedStyle(one).color).slice(0, 3).map(
            (part, place) => seen * part + (1 - seen) * ground[place]);
          const [high, low] = [light(mixed), light(ground)].sort((a, b) => b - a);
          ratios.push([(high + 0.05) / (low + 0.05), one.textContent.trim().slice(0, 40)]);
        }
      };
      window.save = () => {};
      look();
      document.getElementById("warning").textContent = "A warning";
      window.begin();
      document.getElementById("warning").textContent = "A warning";
      for (const key of ["3", "c"]) document.dispatchEvent(new window.KeyboardEvent("keydown", {key}));
      document.getElementById("warning").textContent = "A warning";
      look();
      return {least: ratios.sort((a, b) => a[0] - b[0])[0], number: ratios.length,
        wide: document.documentElement.scrollWidth > window.innerWidth};
    }"""
    for name in ("eccv", "cxc", "entailment"):
        found, _, _ = measure(page_of(name)[0], script, widths=(390,), dark=dark)
        assert found["390"]["number"] > 8
        assert found["390"]["least"][0] >= 4.5, found["390"]["least"]
        assert not found["390"]["wide"]
