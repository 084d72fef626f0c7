"""The questionnaire in a real browser, from a file: by keyboard, mouse and touch, until its answers are read back."""

import base64
import csv
import json
import re
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from threading import Thread
from urllib.parse import parse_qs

import pytest
from PIL import Image

from cxc_eccv.studies.asking.answer_files import Unfinished, read_answers
from cxc_eccv.studies.asking.formats import MTURK
from cxc_eccv.studies.asking.questionnaire import (
    Handout,
    Texts,
    describe_page,
    describe_question,
    describe_questions,
    list_files,
    page_texts,
    render_page,
)
from cxc_eccv.studies.asking.questions import CANDIDATE, Question, Questionnaire
from cxc_eccv.studies.asking.schemes import Answer, schemes

pytestmark = pytest.mark.slow

HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>{{ 7 * 7 }}"
PHONE = {"width": 390, "height": 844, "touch": True}
PAGE_TEXTS = page_texts()
IS_READY = "!document.getElementById('form').inert"


def paint(colour, size=(640, 480)):
    """The address of an embedded image."""
    content = BytesIO()
    Image.new("RGB", size, colour).save(content, "PNG")
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def ask(name="eccv", sheets=2, size=3, **changes):
    """Sheets of questions under a scheme."""
    other = {"cxc_captions": "Other sentence {}.", "cxc_images": "other{}.jpg", "failures": "other{}.jpg"}.get(name, "")
    questions = [
        Question(
            f"p{place}", place, 10 + place, f"{place}.jpg", f"Sentence {place}.", CANDIDATE, ("One.", "Two."),
            other.format(place),
        )
        for place in range(sheets * size)
    ]  # fmt: skip
    questions = [replace(question, **changes) for question in questions]
    return Questionnaire(schemes()[name], [questions[start : start + size] for start in range(0, sheets * size, size)])


def render(asked, image=None, practice=(), **options):
    """The page of a questionnaire."""
    questions = [*(own for sheet in asked.sheets for own in sheet), *(own for own, _ in practice)]
    names = sorted(list_files(questions, asked.scheme))
    images = {name: image or paint((place, 90, 160), (64, 48)) for place, name in enumerate(names)}
    shown = [(describe_question(own, asked.scheme, images), expected) for own, expected in practice]
    handout = Handout(options.pop("scheme", asked.scheme), practice=shown, **options)
    return render_page(describe_page(describe_questions([asked], images), handout), handout)


def begin(page, name="Ann", ready=IS_READY):
    page.press(name, "Enter")
    page.wait(ready)


def press(page, *keys):
    """Keys, each of them when the images of its question are there."""
    for key in keys:
        page.wait(IS_READY)
        page.press(key)


def answer(page, *keys):
    """One question by keys, and on to the next one."""
    page.wait(IS_READY)
    page.press(*keys, "Enter")


def place(page):
    return page.text("#place")


ANSWERED = {
    "eccv": [
        (("1",), "yes", {}),
        (("2", "b"), "partially_yes", {"shortcomings": ["not_in_caption"]}),
        (("3", "c", "f"), "mostly_no", {"shortcomings": ["wrong_description"], "errors": ["color"]}),
        (("4",), "no", {}),
        (("3", "c", "f", "a", "c"), "mostly_no", {"shortcomings": ["not_in_image"]}),
        (("3", "c", "f", "1"), "yes", {}),
    ],
    "cxc": [
        (("ArrowUp",) * 3, 2.8, {}),
        (("ArrowUp", "ArrowDown"), 2.5, {}),
        (("PageDown",) * 6, 0, {}),
        (("PageUp",) * 6, 5, {}),
        (("ArrowDown",), 2.4, {}),
        (("PageUp",), 3, {}),
    ],
    "entailment": [
        ((first, second), {"describes": first == "1", "follows": second == "3"}, {})
        for first, second in ("13", "14", "23", "24", "13", "24")
    ],
    "failures": [
        (("7", "b", "d"), 7, {"classes": ["object class", "enumeration"]}),
        (("0", "a"), 10, {"classes": ["alternatives"]}),
        (("b", "a", "1"), 1, {"classes": ["alternatives"]}),
        (("a", "c", "2"), 2, {"classes": ["colour"]}),
        (("5", "ArrowUp", "g"), 6, {"classes": ["detail"]}),
        (("9", "b", "b", "e"), 9, {"classes": ["size"]}),
    ],
    "cxc_images": [(("PageUp",), 3, {})] * 6,
    "cxc_captions": [(("PageDown",), 2, {})] * 6,
}


@pytest.mark.parametrize("name", schemes())
def test_by_keys_alone_from_the_name_to_a_file_that_is_read(visitor, name):
    asked = ask(name)
    page = visitor.open(render(asked))
    begin(page, "  Ann  B ")
    for keys, _, _ in ANSWERED[name]:
        answer(page, *keys)
    page.press("s")
    assert "All 6 questions are answered" in page.text("#message")
    path = visitor.take_saved()
    reading = read_answers([path], [asked])
    table = reading.answers
    assert path.name == f"answers-{asked.id}-Ann-B.jsonl"
    assert reading.unfinished == ()
    assert [json.loads(own) for own in table["answer"].to_pylist()] == [expected for _, expected, _ in ANSWERED[name]]
    assert [json.loads(own) for own in table["details"].to_pylist()] == [expected for _, _, expected in ANSWERED[name]]
    assert set(table["worker"].to_pylist()) == {"ann b"}
    assert page.requests == []
    assert page.complaints == []


TOUCHED = {"eccv": "#form label", "cxc": "#form input", "failures": "#form input", "cxc_images": "#form input"}


@pytest.mark.parametrize("name", TOUCHED)
def test_by_touch_on_a_phone_progress_and_next_are_in_sight(visitor, name):
    """Whatever is scrolled; and the image is whole on the screen."""
    asked = ask(name)
    page = visitor.open(render(asked, paint("teal", (480, 640))), **PHONE)
    page.tap("#worker")
    page.press("Ann")
    page.tap("#begin")
    page.wait(IS_READY)
    for number in range(6):
        page.wait(IS_READY)
        assert place(page) == f"Sheet {number // 3 + 1} of 2, question {number % 3 + 1} of 3"
        assert (page.text("#count") == "last question of this sheet") is (number % 3 == 2)
        x, y, width, height = page.box("#shown img")
        header, footer = page.box("header"), page.box("footer")
        assert (x >= 0, x + width <= 390, y >= header[3], y + height <= footer[1]) == (True,) * 4
        page.tap(TOUCHED[name], scroll=True)
        if name == "failures":
            page.tap("#form fieldset:last-child label", scroll=True)
        header, footer = page.box("header"), page.box("footer")
        assert (header[1], round(footer[1] + footer[3])) == (0, 844)
        assert page.run("document.getElementById('save').matches('.first')") is (number == 5)
        page.tap("#next")
    page.tap("#save")
    assert read_answers([visitor.take_saved()], [asked]).answers.num_rows == 6
    assert page.run("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("touch", [False, True])
@pytest.mark.parametrize(("down", "number"), [(0.5, 2.5), (0.02, 5), (0.98, 0)])
def test_a_slider_records_where_it_was_clicked_its_middle_too(visitor, touch, down, number):
    page = visitor.open(render(ask("cxc", 1, 1)), 390, 844, touch=touch)
    begin(page)
    assert page.text("#count") == "0 of 1 answered"
    assert page.run("document.getElementById('progress').value") == 0
    if touch:
        page.tap("#form input", down=down, scroll=True)
    else:
        page.click("#form input", down=down)
    assert page.run("document.getElementById('progress').value") == 1
    page.press("s")
    assert json.loads(visitor.take_saved().read_text())["answer"] == pytest.approx(number, abs=0.05)


def test_a_slider_dragged_to_a_description_stands_beside_it(visitor):
    marks = schemes()["cxc"].marks
    page = visitor.open(render(ask("cxc", 1, 1)))
    begin(page)
    for end, rating in ((0.98, 0), (0.02, 5)):
        page.drag("#form input", 0.5, end)
        assert page.run("[...document.querySelectorAll('.near')].map((mark) => mark.textContent)") == [marks[rating]]
        assert page.run("document.querySelector('#form input').getAttribute('aria-valuetext')") == marks[rating]
        (_, top, _, height), (_, mark, _, tall) = page.box("#form input"), page.box(".near")
        assert mark < top + end * height < mark + tall
    page.press("s")
    assert json.loads(visitor.take_saved().read_text())["answer"] == 5


def test_practice_says_what_was_expected_and_is_not_saved(visitor):
    asked = ask()
    practice = [(ask(file_name="p.jpg", pair_id=f"practice{place}").sheets[0][0], place == 0) for place in (0, 1)]
    page = visitor.open(render(asked, practice=practice))
    begin(page)
    assert (place(page), page.text("#count"), page.text("#feedback")) == ("Practice 1 of 2", "not saved", "")
    page.press("u")  # practice is not what is open
    assert place(page) == "Sheet 1 of 2, question 1 of 3"
    press(page, "ArrowLeft", "ArrowLeft", "1")
    assert page.text("#feedback") == "As expected. This pair matches."
    page.press("4")
    assert page.text("#feedback") == "Another answer was expected. This pair matches."
    press(page, "Enter", "2")
    assert page.text("#feedback") == ""  # a reason is missing
    page.press("a")
    assert page.text("#feedback") == "Another answer was expected. This pair does not match."
    page.press("Enter")
    assert page.text("#message") == "The practice is over: answers count from here on."
    assert (place(page), page.text("#feedback")) == ("Sheet 1 of 2, question 1 of 3", "")
    page.press("s")
    assert page.text("#message") == "Nothing is answered yet."
    for _ in range(3):
        answer(page, "1")
    page.press("s")
    rows = [json.loads(line) for line in visitor.take_saved().read_text().splitlines()]
    assert [row["pair_id"] for row in rows] == ["p0", "p1", "p2"]


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [("cxc", "PageDown", "PageUp"), ("entailment", "2", "1"), ("cxc_images", None, "ArrowUp")],
)
def test_practice_knows_what_counts_as_a_match(visitor, name, wrong, right):
    page = visitor.open(render(ask(name), practice=[(ask(name, pair_id="practice").sheets[0][0], True)]))
    begin(page)
    if name == "entailment":
        page.press("3")
    page.press(*[wrong] * 3 if wrong else ["ArrowDown"])
    assert page.text("#feedback") == "Another answer was expected. This pair matches."
    page.press(*[right] * 6)
    assert page.text("#feedback") == "As expected. This pair matches."


def test_a_half_done_file_has_its_whole_sheets_taken_and_is_finished_later(visitor):
    asked = ask()
    page = visitor.open(render(asked))
    begin(page)
    for key in ("1", "4", "1", "1"):
        answer(page, key)
    page.press("s")
    rest = "Finished sheets: 1 of 2. Unfinished sheets count once they are finished and saved again."
    assert page.text("#message") == f"Saved answers: 4, in answers-{asked.id}-Ann.jsonl. {rest}"
    reading = read_answers([visitor.take_saved()], [asked])
    assert (reading.answers.num_rows, reading.unfinished) == (3, (Unfinished(1, "ann", 1, 3),))
    press(page, "ArrowRight", "1", "Enter")
    assert page.text("#message").startswith(rest)
    page.click("#message button")
    assert place(page) == "Sheet 2 of 2, question 2 of 3"
    press(page, "1", "s")
    reading = read_answers([visitor.take_saved()], [asked])
    assert (reading.answers.num_rows, reading.unfinished) == (6, ())


def test_sheets_of_one_question_are_one_list(visitor):
    page = visitor.open(render(ask("failures", sheets=3, size=1)))
    begin(page)
    assert (place(page), page.text("#count")) == ("Question 1 of 3", "0 of 3 answered")
    press(page, "7", "b", "Enter")
    assert (place(page), page.text("#count")) == ("Question 2 of 3", "1 of 3 answered")
    assert page.text("#message") == ""
    press(page, "ArrowRight", "ArrowRight")
    assert page.text("#message").startswith("1 of 3 answered")


def test_every_text_has_its_own_direction(visitor):
    """Sentences, answers and instructions may be in a language that is written from right to left."""
    arabic = "\u0643\u0644\u0628 \u064a\u0631\u0643\u0636"
    asked = ask(caption=arabic)
    first, *others = asked.scheme.answers
    scheme = replace(
        asked.scheme, title=arabic, instructions=(arabic,), answers=(replace(first, label=arabic), *others)
    )
    page = visitor.open(render(asked, scheme=scheme))
    directions = "[...document.querySelectorAll('{}')].map((each) => getComputedStyle(each).direction)"
    assert page.run(directions.format("#start h1, #guide p")) == ["rtl", "rtl"]
    begin(page)
    assert page.run(directions.format("blockquote")) == ["rtl"]
    assert page.run(directions.format(".option span"))[:2] == ["rtl", "ltr"]


def test_the_end_of_a_sheet_is_told(visitor):
    page = visitor.open(render(ask()))
    begin(page)
    press(page, "1", "Enter", "1", "Enter", "ArrowLeft", "Enter")
    assert page.text("#message") == ""
    page.press("Enter")
    assert page.text("#message").startswith("Finished sheets: 0 of 2.")
    page.press("u")
    assert place(page) == "Sheet 1 of 2, question 3 of 3"
    assert page.text("#count") == "last question of this sheet"
    press(page, "1", "Enter")
    assert page.text("#message").startswith("Finished sheets: 1 of 2.")
    assert page.run("document.querySelectorAll('#message button').length") == 0
    assert page.text("#count") == "3 of 6 answered"


def test_answers_are_kept_gone_on_with_and_corrected(visitor):
    asked = ask()
    html = render(asked)
    page = visitor.open(html)
    begin(page)
    answer(page, "1")
    answer(page, "4")
    page.load()
    assert page.run("document.getElementById('worker').value") == "Ann"
    page.press("Enter")
    page.wait(IS_READY)
    assert page.text("#message") == "Welcome back. Answers kept in this browser: 2."
    assert place(page) == "Sheet 1 of 2, question 3 of 3"
    page.press("1", "ArrowLeft")
    assert page.run("document.querySelectorAll('#form input')[3].checked")
    press(page, "2", "d", "s")
    rows = [json.loads(line) for line in visitor.take_saved().read_text().splitlines()]
    assert [row["answer"] for row in rows] == ["yes", "partially_yes", "yes"]
    assert rows[1]["details"] == {"shortcomings": ["grammar"]}
    for name, number in ((" ann", 3), ("Ben", 0)):
        page = visitor.open(html)
        page.run("document.getElementById('worker').select()")
        begin(page, name)
        assert page.text("#count").startswith(f"{number} of 6") or place(page).endswith("question 2 of 3")
        assert page.text("#message") == (f"Welcome back. Answers kept in this browser: {number}." if number else "")


@pytest.mark.parametrize("name", ["", "  ", "w\u200b1"], ids=["none", "blanks", "invisible"])
def test_nobody_begins_without_a_name_that_can_be_read(visitor, name):
    page = visitor.open(render(ask()))
    page.press(*filter(None, [name]), "Enter")
    assert page.run("document.getElementById('question').hidden && !document.getElementById('worker').validity.valid")


def test_who_is_to_agree_does_so_before_the_first_question(visitor):
    page = visitor.open(render(ask(), texts=Texts(consent=("Your answers are published.", "You may stop."))))
    assert "Your answers are published." in page.text("#start")
    page.press("Ann", "Enter")
    assert page.run("document.getElementById('question').hidden")
    page.run("document.getElementById('agree').focus()")
    page.press(" ", "Enter")
    page.wait(IS_READY)
    assert place(page) == "Sheet 1 of 2, question 1 of 3"


def test_sheets_of_somebody_have_their_name(visitor):
    page = visitor.open(render(ask(), worker="ann"))
    page.press("other", "Enter")
    page.wait(IS_READY)
    page.press("1", "s")
    assert json.loads(visitor.take_saved().read_text())["worker"] == "ann"


def test_the_page_is_in_another_language_whole(visitor):
    """Every text of the page is one that may be translated, and none of them stays English."""
    translations = {text: "¤" + text.replace("{questions}", "{questions}!") for text in PAGE_TEXTS}
    asked, practice = ask("entailment"), [(ask(pair_id="practice").sheets[0][0], True)]
    scheme = replace(asked.scheme, title="¤", instructions=("¤",), shows=schemes()["eccv"].shows)
    texts = Texts("de", ("C.",), ("E.",), translations)
    page = visitor.open(render(replace(asked, scheme=scheme), texts=texts, practice=practice))
    untranslated = """(...expected) => [...document.querySelectorAll('body *:not(script, kbd, h2, blockquote)')]
      .filter((element) => element.checkVisibility())
      .flatMap((element) => [...element.childNodes]).filter((node) => node.nodeType === 3)
      .map((node) => node.data.trim())
      .filter((text) => /[a-z]/i.test(text) && !text.startsWith('¤') && !expected.includes(text))"""
    expected = ["C.", "E.", *scheme.criteria.values()]
    assert page.run("document.documentElement.lang") == "de"
    assert page.run(untranslated, *expected) == []
    page.run("document.getElementById('agree').checked = true")
    begin(page)
    page.press("?", "1", "3")
    assert place(page) == "¤Practice 1 of 1!"
    assert page.run(untranslated, *expected) == []
    page.press("Enter")
    answer(page, "1", "3")
    page.press("s")
    assert page.text("#message").startswith("¤Saved answers: 1, in")
    assert page.run(untranslated, *expected) == []


INJECTED = {
    "entailment": ({"captions": (HOSTILE,)}, {"criteria": {"describes": HOSTILE, "follows": HOSTILE}}),
    "cxc_captions": ({"other": HOSTILE}, {"question": HOSTILE, "marks": (HOSTILE,) * 6}),
    "eccv": ({}, {"answers": (Answer("yes", HOSTILE, 1.0),), "details": ()}),
}


@pytest.mark.parametrize(("name", "shown", "changes"), [(name, *both) for name, both in INJECTED.items()])
def test_nothing_shown_or_typed_runs(visitor, name, shown, changes):
    asked = ask(name, caption=HOSTILE, **shown)
    scheme = replace(asked.scheme, title=HOSTILE, instructions=(HOSTILE,), **changes)
    attribute = {"Letters, digits and signs that can be seen": '" onfocus="window.ran = 3'}
    texts = Texts(consent=(HOSTILE,), examples=(HOSTILE,), page={"Begin": HOSTILE, "Next": HOSTILE} | attribute)
    page = visitor.open(render(asked, scheme=scheme, texts=texts))
    page.run("document.getElementById('agree').checked = true")
    begin(page, HOSTILE[:70])
    page.press("1", "3", "ArrowUp", "r", HOSTILE, "Escape", "s", "?")
    assert page.text("blockquote") == HOSTILE
    assert HOSTILE in page.text("#form")
    row = json.loads(visitor.take_saved().read_text())
    assert (row["caption"], row["remark"], row["worker"]) == (HOSTILE, HOSTILE, HOSTILE[:70].strip())
    assert page.run("window.ran ?? null") is None
    assert page.complaints == []
    assert page.requests == []


def test_two_images_or_two_sentences_are_shown_with_their_titles(visitor):
    page = visitor.open(render(ask("cxc_images")), **PHONE)
    begin(page)
    sources = page.run("[...document.querySelectorAll('#shown img')].map((image) => image.src)")
    assert len(set(sources)) == 2
    boxes = [page.box(f".image:nth-child({number})") for number in (1, 2)]
    assert boxes[0][1] == boxes[1][1]  # beside each other
    page = visitor.open(render(ask("cxc_captions")))
    begin(page)
    shown = page.run("[...document.querySelectorAll('#shown h2, #shown blockquote')].map((own) => own.textContent)")
    assert shown == ["One sentence", "Sentence 0.", "The other sentence", "Other sentence 0."]
    page = visitor.open(render(ask("entailment")))
    begin(page)
    assert page.run("[...document.querySelectorAll('#shown li')].map((own) => own.textContent)") == ["One.", "Two."]


def test_an_image_that_does_not_load_is_not_judged_until_it_does(visitor, tmp_path):
    page = visitor.open(render(ask(), image="late.png"))
    begin(page, ready="document.querySelector('#shown button')")
    assert "The image 0.jpg does not load" in page.text("#shown .bad")
    page.press("1", "r", "odd", "Escape", "1")
    assert page.text("#count") == "0 of 6 answered"
    (tmp_path / "late.png").write_bytes(base64.b64decode(paint("red").partition(",")[2]))
    page.click("#shown button")
    page.wait(IS_READY)
    page.press("1")
    assert page.text("#count") == "1 of 6 answered"
    assert page.text("#shown .bad") == ""


def test_only_a_page_with_its_images_in_it_works_offline(visitor):
    addresses = (paint("red"), "https://example.invalid/a.jpg", "images/a.jpg")
    notes = [visitor.open(render(ask(), image=address)).text("#network") for address in addresses]
    assert notes == ["This page works offline.", "Its images come from the internet: stay online.", ""]


@pytest.mark.parametrize("why", ["full", "unavailable"])
def test_where_the_browser_keeps_nothing_it_says_so_and_the_answers_can_be_saved(visitor, why):
    never = "() => { throw new DOMException('no', 'QuotaExceededError'); }"
    before = {
        "full": f"Storage.prototype.setItem = {never}",
        "unavailable": f"Object.defineProperty(window, 'localStorage', {{get: {never}}})",
    }
    page = visitor.open(render(ask()), before=before[why])
    begin(page)
    for _ in range(6):
        answer(page, "1")
    assert page.text("#unkept") == "This browser keeps nothing: save or submit your answers before you close the page."
    leave = "window.dispatchEvent(new Event('beforeunload', {cancelable: true}))"
    assert not page.run(leave)  # the browser asks first
    page.press("s")
    assert len(visitor.take_saved().read_text().splitlines()) == 6
    assert page.run(leave)
    assert page.complaints == []


def test_two_tabs_have_the_same_answers(visitor):
    html = render(ask())
    tabs = [visitor.open(html), visitor.open(html)]
    for tab in tabs:
        tab.run("document.getElementById('worker').value = 'Ann'; document.getElementById('begin').click()")
        tab.wait(IS_READY)
    time.sleep(0.3)  # people do not answer in two tabs within the same moment
    tabs[0].run("document.querySelectorAll('#form input')[0].click()")
    tabs[1].wait("document.querySelectorAll('#form input')[0].checked")
    tabs[1].run("document.getElementById('next').click()")
    tabs[1].run("document.querySelectorAll('#form input')[3].click()")
    tabs[0].wait("document.getElementById('count').textContent === '2 of 6 answered'")
    tabs[0].run("document.querySelectorAll('#form input')[1].click()")  # not whole without its reason
    time.sleep(0.2)
    assert [tab.text("#count") for tab in tabs] == ["1 of 6 answered", "2 of 6 answered"]


def test_neither_the_instructions_nor_another_tab_take_time_of_a_question(visitor):
    clock = "let late = 0; const now = performance.now.bind(performance); performance.now = () => now() + 1000 * late"
    page = visitor.open(render(ask()), before=clock)
    page.run("late += 100")
    begin(page)
    page.run("late += 5")
    for hidden in ("true", "false"):
        page.run(f"Object.defineProperty(document, 'hidden', {{get: () => {hidden}, configurable: true}})")
        page.run("document.dispatchEvent(new Event('visibilitychange')), late += 100 * document.hidden")
    page.press("1", "s")
    assert 5 <= json.loads(visitor.take_saved().read_text())["seconds"] < 100


def test_keys_in_a_remark_are_text_and_help_is_a_key_away(visitor):
    page = visitor.open(render(ask(), texts=Texts(examples=("A dog: 100% YES.",))))
    assert not page.run("document.getElementById('examples').open")
    begin(page)
    page.press("r", "1 s?u", "4", "Escape", "?")
    assert page.run("document.querySelector('#help #examples p').checkVisibility()")
    page.press("1", "s")
    row = json.loads(visitor.take_saved().read_text())
    assert (row["answer"], row["remark"]) == ("yes", "1 s?u4")


@pytest.mark.parametrize("name", ["eccv", "entailment", "failures"])
def test_every_control_has_a_name_and_the_focus_goes_on(visitor, name):
    page = visitor.open(render(ask(name)))
    unnamed = """[...document.querySelectorAll('input, textarea, button')].filter((control) => control.checkVisibility()
      && !(control.labels?.length || control.textContent.trim() || control.ariaLabel)).length"""
    assert page.run(unnamed) == 0
    begin(page)
    assert page.run("document.activeElement.id") == "shown"
    page.press("Tab")
    assert page.run("document.activeElement.matches('#form input')")
    page.press("b" if name == "failures" else "2")
    assert page.run("document.activeElement.checked && document.activeElement.matches(':focus-visible')")
    assert page.run(unnamed) == 0
    page.press("Enter")
    assert page.run("document.activeElement.id") == "shown"


@pytest.fixture
def turk():
    """A server to submit HITs to, and the forms that came."""
    forms = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode("ascii")
            forms.append((self.path, {name: own for name, (own,) in parse_qs(body, strict_parsing=True).items()}))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}", forms
        server.shutdown()


def test_a_worker_of_mturk_submits_two_hits_that_count(visitor, turk, tmp_path):
    host, forms = turk
    asked = ask("cxc_captions", 2, 2, caption="</script> Caf\u00e9 \U0001f600, $x ${y}")
    (practice,) = ask("cxc_captions", 1, 1, pair_id="practice").sheets[0]
    practised = [(describe_question(practice, asked.scheme, {}), True)]
    files = MTURK.render(describe_questions([asked], {}), Handout(asked.scheme, practice=practised))
    template = files["template.html"]
    assert re.findall(r"\$\{\w*", template) == ["${questions"]  # the only variable
    results = []
    for number, row in enumerate(csv.DictReader(files["hits.csv"].splitlines())):
        html = template.replace("${questions}", row["questions"])
        page = visitor.open(html, query="?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=h")
        assert page.run("!document.getElementById('worker').checkVisibility()")
        page.press("Enter", "ArrowRight", "PageUp", "s")
        assert page.text("#message") == "Accept the HIT before you submit answers."
        page = visitor.open(html, query=f"?assignmentId=a{number}&workerId=W1&turkSubmitTo={host}")
        page.click("#begin")
        assert place(page) == "Practice 1 of 1"
        page.press("ArrowRight", "r", "Caf\u00e9 \U0001f600", "Escape", "PageUp", "s")
        assert page.text("#message").startswith("Answer all questions before you submit them.")
        page.press("ArrowRight", "PageDown", "Enter")
        assert page.text("#message") == "All 2 questions are answered: submit them. Thank you."
        page.click("#save")
        page.wait("location.protocol === 'http:'")
        assert page.complaints == []
        path, form = forms[-1]
        assert (path, form.keys(), form["assignmentId"]) == (
            "/mturk/externalSubmit", {"assignmentId", "answers"}, f"a{number}"
        )  # fmt: skip
        results.append({"WorkerId": "W1", "AssignmentStatus": "Submitted", "Answer.answers": form["answers"]})
    with (tmp_path / "batch.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, results[0])
        writer.writeheader()
        writer.writerows(results)
    table = read_answers([tmp_path / "batch.csv"], [asked], "mturk").answers
    assert table["answer"].to_pylist() == ["3.0", "2.0"] * 2
    assert table["remark"].to_pylist() == ["Caf\u00e9 \U0001f600", ""] * 2
    assert set(table["worker"].to_pylist()) == {"w1"}
    assert len(forms) == 2


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_texts_stand_out_from_their_ground(visitor, dark):
    texts = Texts(consent=("Your answers are published.",), examples=("A dog.",))
    practice = {"practice": [(ask(pair_id="practice").sheets[0][0], True)]}
    for name in schemes():
        page = visitor.open(render(ask(name), texts=texts, **(practice if name == "eccv" else {})), dark=dark)
        page.assert_legible(6)
        page.assert_fitting()
        page.run("document.getElementById('agree').checked = true")
        begin(page)
        page.press(*ANSWERED[name][2][0], "s")
        page.run("document.getElementById('unkept').hidden = false")
        page.assert_legible(15)
        page.assert_fitting()
