"""The questionnaire in a real browser, from a file: by keyboard, mouse and touch, until its answers are read back."""

import base64
import csv
import itertools
import json
import re
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from threading import Thread
from urllib.parse import parse_qs

import pytest
from page_checks import assert_quiet, assert_sound, list_complaints
from PIL import Image

from cxc_eccv.studies.asking.answer_files import Unfinished, read_answers
from cxc_eccv.studies.asking.formats.mturk import FORMAT as MTURK
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
NAMED_KEYS = {"Enter", "Escape", "Tab", "PageUp", "PageDown", "ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"}
READY_FORM = "#form:not([inert])"


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


def type_keys(page, *keys):
    """Press keys of the keyboard, or type texts."""
    for key in keys:
        if len(key) == 1 or key in NAMED_KEYS:
            page.keyboard.press(key)
        else:
            page.keyboard.insert_text(key)


def find_box(page, selector):
    """x, y, width and height on the screen."""
    return tuple(page.locator(selector).first.bounding_box().values())


def drag(page, selector, start, end):
    """The mouse from one share of an element's height to another."""
    x, y, width, height = find_box(page, selector)
    page.mouse.move(x + width / 2, y + start * height)
    page.mouse.down()
    page.mouse.move(x + width / 2, y + end * height, steps=9)
    page.mouse.up()


@pytest.fixture
def save(tmp_path):
    """Saves the answers by the key or by touching a button, and returns their file."""
    numbers = itertools.count()

    def save_answers(page, button=""):
        with page.expect_download() as download:
            if button:
                page.tap(button)
            else:
                page.keyboard.press("s")
        path = tmp_path / f"saved_{next(numbers)}" / download.value.suggested_filename
        download.value.save_as(path)
        return path

    return save_answers


def begin(page, name="Ann", ready=READY_FORM):
    type_keys(page, name, "Enter")
    page.wait_for_selector(ready)


def press(page, *keys):
    """Keys, each of them when the images of its question are there."""
    for key in keys:
        page.wait_for_selector(READY_FORM)
        type_keys(page, key)


def answer(page, *keys):
    """One question by keys, and on to the next one."""
    page.wait_for_selector(READY_FORM)
    type_keys(page, *keys, "Enter")


def place(page):
    return page.inner_text("#place")


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
def test_keyboard_alone_completes_a_questionnaire(open_page, save, name):
    asked = ask(name)
    page = open_page(render(asked))
    begin(page, "  Ann  B ")
    for keys, _, _ in ANSWERED[name]:
        answer(page, *keys)
    path = save(page)
    assert "All 6 questions are answered" in page.inner_text("#message")
    reading = read_answers([path], [asked])
    table = reading.answers
    assert path.name == f"answers-{asked.id}-Ann-B.jsonl"
    assert reading.unfinished == ()
    assert [json.loads(own) for own in table["answer"].tolist()] == [expected for _, expected, _ in ANSWERED[name]]
    assert [json.loads(own) for own in table["details"].tolist()] == [expected for _, _, expected in ANSWERED[name]]
    assert set(table["worker"].tolist()) == {"ann b"}
    assert_quiet(page)


TOUCHED = {"eccv": "#form label", "cxc": "#form input", "failures": "#form input", "cxc_images": "#form input"}


@pytest.mark.parametrize("name", TOUCHED)
def test_phone_shows_progress_and_next_button(open_page, save, name):
    """Whatever is scrolled; and the image is whole on the screen."""
    from playwright.sync_api import expect

    asked = ask(name)
    page = open_page(render(asked, paint("teal", (480, 640))), **PHONE)
    page.tap("#worker")
    type_keys(page, "Ann")
    page.tap("#begin")
    page.wait_for_selector(READY_FORM)
    for number in range(6):
        page.wait_for_selector(READY_FORM)
        assert place(page) == f"Sheet {number // 3 + 1} of 2, question {number % 3 + 1} of 3"
        assert (page.inner_text("#count") == "last question of this sheet") is (number % 3 == 2)
        x, y, width, height = find_box(page, "#shown img")
        header = find_box(page, "header")
        footer = find_box(page, "footer")
        assert (x >= 0, x + width <= 390, y >= header[3], y + height <= footer[1]) == (True,) * 4
        page.tap(TOUCHED[name])
        if name == "failures":
            page.tap("#form fieldset:last-child label")
        header = find_box(page, "header")
        footer = find_box(page, "footer")
        assert (header[1], round(footer[1] + footer[3])) == (0, 844)
        assert page.evaluate("document.getElementById('save').matches('.first')") is (number == 5)
        expect(page.locator("#next")).to_be_in_viewport()
        page.tap("#next")
    expect(page.locator("#save")).to_be_in_viewport()
    assert len(read_answers([save(page, "#save")], [asked]).answers) == 6
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("touch", [False, True])
@pytest.mark.parametrize(("down", "number"), [(0.5, 2.5), (0.02, 5), (0.98, 0)])
def test_slider_records_where_it_was_clicked(open_page, save, touch, down, number):
    page = open_page(render(ask("cxc", 1, 1)), 390, 844, touch=touch)
    begin(page)
    assert page.inner_text("#count") == "0 of 1 answered"
    assert page.evaluate("document.getElementById('progress').value") == 0
    _, _, width, height = find_box(page, "#form input")
    aim = page.tap if touch else page.click
    aim("#form input", position={"x": width / 2, "y": down * height})
    assert page.evaluate("document.getElementById('progress').value") == 1
    assert json.loads(save(page).read_text())["answer"] == pytest.approx(number, abs=0.05)


def test_dragged_slider_stands_beside_its_description(open_page, save):
    marks = schemes()["cxc"].marks
    page = open_page(render(ask("cxc", 1, 1)))
    begin(page)
    for end, rating in ((0.98, 0), (0.02, 5)):
        drag(page, "#form input", 0.5, end)
        assert page.evaluate("[...document.querySelectorAll('.near')].map((mark) => mark.textContent)") == [
            marks[rating]
        ]
        assert page.evaluate("document.querySelector('#form input').getAttribute('aria-valuetext')") == marks[rating]
        (_, top, _, height), (_, mark, _, tall) = find_box(page, "#form input"), find_box(page, ".near")
        assert mark < top + end * height < mark + tall
    assert json.loads(save(page).read_text())["answer"] == 5


def test_practice_gives_feedback_and_is_not_saved(open_page, save):
    asked = ask()
    practice = [(ask(file_name="p.jpg", pair_id=f"practice{place}").sheets[0][0], place == 0) for place in (0, 1)]
    page = open_page(render(asked, practice=practice))
    begin(page)
    assert (place(page), page.inner_text("#count"), page.inner_text("#feedback")) == (
        "Practice 1 of 2",
        "not saved",
        "",
    )
    type_keys(page, "u")  # practice is not what is open
    assert place(page) == "Sheet 1 of 2, question 1 of 3"
    press(page, "ArrowLeft", "ArrowLeft", "1")
    assert page.inner_text("#feedback") == "As expected. This pair matches."
    type_keys(page, "4")
    assert page.inner_text("#feedback") == "Another answer was expected. This pair matches."
    press(page, "Enter", "2")
    assert page.inner_text("#feedback") == ""  # a reason is missing
    type_keys(page, "a")
    assert page.inner_text("#feedback") == "Another answer was expected. This pair does not match."
    type_keys(page, "Enter")
    assert page.inner_text("#message") == "The practice is over: answers count from here on."
    assert (place(page), page.inner_text("#feedback")) == ("Sheet 1 of 2, question 1 of 3", "")
    type_keys(page, "s")
    assert page.inner_text("#message") == "Nothing is answered yet."
    for _ in range(3):
        answer(page, "1")
    rows = [json.loads(line) for line in save(page).read_text().splitlines()]
    assert [row["pair_id"] for row in rows] == ["p0", "p1", "p2"]


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [("cxc", "PageDown", "PageUp"), ("entailment", "2", "1"), ("cxc_images", None, "ArrowUp")],
)
def test_practice_knows_what_counts_as_a_match(open_page, name, wrong, right):
    page = open_page(render(ask(name), practice=[(ask(name, pair_id="practice").sheets[0][0], True)]))
    begin(page)
    if name == "entailment":
        type_keys(page, "3")
    type_keys(page, *[wrong] * 3 if wrong else ["ArrowDown"])
    assert page.inner_text("#feedback") == "Another answer was expected. This pair matches."
    type_keys(page, *[right] * 6)
    assert page.inner_text("#feedback") == "As expected. This pair matches."


def test_half_finished_file_can_be_completed_later(open_page, save):
    """Its whole sheets are imported."""
    asked = ask()
    page = open_page(render(asked))
    begin(page)
    for key in ("1", "4", "1", "1"):
        answer(page, key)
    path = save(page)
    rest = "Finished sheets: 1 of 2. Unfinished sheets count once they are finished and saved again."
    assert page.inner_text("#message") == f"Saved answers: 4, in answers-{asked.id}-Ann.jsonl. {rest}"
    reading = read_answers([path], [asked])
    assert (len(reading.answers), reading.unfinished) == (3, (Unfinished(1, "ann", 1, 3),))
    press(page, "ArrowRight", "1", "Enter")
    assert page.inner_text("#message").startswith(rest)
    page.click("#message button")
    assert place(page) == "Sheet 2 of 2, question 2 of 3"
    press(page, "1")
    reading = read_answers([save(page)], [asked])
    assert (len(reading.answers), reading.unfinished) == (6, ())


def test_sheets_of_one_question_are_one_list(open_page):
    page = open_page(render(ask("failures", sheets=3, size=1)))
    begin(page)
    assert (place(page), page.inner_text("#count")) == ("Question 1 of 3", "0 of 3 answered")
    press(page, "7", "b", "Enter")
    assert (place(page), page.inner_text("#count")) == ("Question 2 of 3", "1 of 3 answered")
    assert page.inner_text("#message") == ""
    press(page, "ArrowRight", "ArrowRight")
    assert page.inner_text("#message").startswith("1 of 3 answered")


def test_every_text_has_its_own_direction(open_page):
    """Sentences, answers and instructions may be in a language that is written from right to left."""
    arabic = "\u0643\u0644\u0628 \u064a\u0631\u0643\u0636"
    asked = ask(caption=arabic)
    first, *others = asked.scheme.answers
    scheme = replace(
        asked.scheme, title=arabic, instructions=(arabic,), answers=(replace(first, label=arabic), *others)
    )
    page = open_page(render(asked, scheme=scheme))
    directions = "[...document.querySelectorAll('{}')].map((each) => getComputedStyle(each).direction)"
    assert page.evaluate(directions.format("#start h1, #guide p")) == ["rtl", "rtl"]
    begin(page)
    assert page.evaluate(directions.format("blockquote")) == ["rtl"]
    assert page.evaluate(directions.format(".option span"))[:2] == ["rtl", "ltr"]


def test_the_end_of_a_sheet_is_told(open_page):
    page = open_page(render(ask()))
    begin(page)
    press(page, "1", "Enter", "1", "Enter", "ArrowLeft", "Enter")
    assert page.inner_text("#message") == ""
    type_keys(page, "Enter")
    assert page.inner_text("#message").startswith("Finished sheets: 0 of 2.")
    type_keys(page, "u")
    assert place(page) == "Sheet 1 of 2, question 3 of 3"
    assert page.inner_text("#count") == "last question of this sheet"
    press(page, "1", "Enter")
    assert page.inner_text("#message").startswith("Finished sheets: 1 of 2.")
    assert page.evaluate("document.querySelectorAll('#message button').length") == 0
    assert page.inner_text("#count") == "3 of 6 answered"


def test_answers_are_kept_gone_on_with_and_corrected(open_page, save):
    asked = ask()
    html = render(asked)
    page = open_page(html)
    begin(page)
    answer(page, "1")
    answer(page, "4")
    page.reload()
    assert page.evaluate("document.getElementById('worker').value") == "Ann"
    type_keys(page, "Enter")
    page.wait_for_selector(READY_FORM)
    assert page.inner_text("#message") == "Welcome back. Answers kept in this browser: 2."
    assert place(page) == "Sheet 1 of 2, question 3 of 3"
    type_keys(page, "1", "ArrowLeft")
    assert page.evaluate("document.querySelectorAll('#form input')[3].checked")
    press(page, "2", "d")
    rows = [json.loads(line) for line in save(page).read_text().splitlines()]
    assert [row["answer"] for row in rows] == ["yes", "partially_yes", "yes"]
    assert rows[1]["details"] == {"shortcomings": ["grammar"]}
    for name, number in ((" ann", 3), ("Ben", 0)):
        page = open_page(html)
        page.evaluate("document.getElementById('worker').select()")
        begin(page, name)
        assert page.inner_text("#count").startswith(f"{number} of 6") or place(page).endswith("question 2 of 3")
        assert page.inner_text("#message") == (
            f"Welcome back. Answers kept in this browser: {number}." if number else ""
        )


@pytest.mark.parametrize("name", ["", "  ", "w\u200b1"], ids=["none", "blanks", "invisible"])
def test_unreadable_name_blocks_the_start(open_page, name):
    page = open_page(render(ask()))
    type_keys(page, *filter(None, [name]), "Enter")
    assert page.evaluate(
        "document.getElementById('question').hidden && !document.getElementById('worker').validity.valid"
    )


def test_consent_is_required_before_the_first_question(open_page):
    page = open_page(render(ask(), texts=Texts(consent=("Your answers are published.", "You may stop."))))
    assert "Your answers are published." in page.inner_text("#start")
    type_keys(page, "Ann", "Enter")
    assert page.evaluate("document.getElementById('question').hidden")
    page.evaluate("document.getElementById('agree').focus()")
    type_keys(page, " ", "Enter")
    page.wait_for_selector(READY_FORM)
    assert place(page) == "Sheet 1 of 2, question 1 of 3"


def test_sheets_of_somebody_have_their_name(open_page, save):
    page = open_page(render(ask(), worker="ann"))
    type_keys(page, "other", "Enter")
    page.wait_for_selector(READY_FORM)
    type_keys(page, "1")
    assert json.loads(save(page).read_text())["worker"] == "ann"


def test_the_page_is_in_another_language_whole(open_page):
    """Every text of the page is one that may be translated, and none of them stays English."""
    translations = {text: "¤" + text.replace("{questions}", "{questions}!") for text in PAGE_TEXTS}
    asked = ask("entailment")
    practice = [(ask(pair_id="practice").sheets[0][0], True)]
    scheme = replace(asked.scheme, title="¤", instructions=("¤",), shows=schemes()["eccv"].shows)
    texts = Texts("de", ("C.",), ("E.",), translations)
    page = open_page(render(replace(asked, scheme=scheme), texts=texts, practice=practice))
    untranslated = """(expected) => [...document.querySelectorAll('body *:not(script, kbd, h2, blockquote)')]
      .filter((element) => element.checkVisibility())
      .flatMap((element) => [...element.childNodes]).filter((node) => node.nodeType === 3)
      .map((node) => node.data.trim())
      .filter((text) => /[a-z]/i.test(text) && !text.startsWith('¤') && !expected.includes(text))"""
    expected = ["C.", "E.", *scheme.criteria.values()]
    assert page.evaluate("document.documentElement.lang") == "de"
    assert page.evaluate(untranslated, expected) == []
    page.evaluate("document.getElementById('agree').checked = true")
    begin(page)
    type_keys(page, "?", "1", "3")
    assert place(page) == "¤Practice 1 of 1!"
    assert page.evaluate(untranslated, expected) == []
    type_keys(page, "Enter")
    answer(page, "1", "3")
    type_keys(page, "s")
    assert page.inner_text("#message").startswith("¤Saved answers: 1, in")
    assert page.evaluate(untranslated, expected) == []


INJECTED = {
    "entailment": ({"captions": (HOSTILE,)}, {"criteria": {"describes": HOSTILE, "follows": HOSTILE}}),
    "cxc_captions": ({"other": HOSTILE}, {"question": HOSTILE, "marks": (HOSTILE,) * 6}),
    "eccv": ({}, {"answers": (Answer("yes", HOSTILE, 1.0),), "details": ()}),
}


@pytest.mark.parametrize(("name", "shown", "changes"), [(name, *both) for name, both in INJECTED.items()])
def test_nothing_shown_or_typed_runs(open_page, save, name, shown, changes):
    asked = ask(name, caption=HOSTILE, **shown)
    scheme = replace(asked.scheme, title=HOSTILE, instructions=(HOSTILE,), **changes)
    attribute = {"Letters, digits and signs that can be seen": '" onfocus="window.ran = 3'}
    texts = Texts(consent=(HOSTILE,), examples=(HOSTILE,), page={"Begin": HOSTILE, "Next": HOSTILE} | attribute)
    page = open_page(render(asked, scheme=scheme, texts=texts))
    page.evaluate("document.getElementById('agree').checked = true")
    begin(page, HOSTILE[:70])
    type_keys(page, "1", "3", "ArrowUp", "r", HOSTILE, "Escape")
    path = save(page)
    type_keys(page, "?")
    assert page.inner_text("blockquote") == HOSTILE
    assert HOSTILE in page.inner_text("#form")
    row = json.loads(path.read_text())
    assert (row["caption"], row["remark"], row["worker"]) == (HOSTILE, HOSTILE, HOSTILE[:70].strip())
    assert page.evaluate("window.ran ?? null") is None
    assert_quiet(page)


def test_two_images_or_sentences_have_titles(open_page):
    page = open_page(render(ask("cxc_images")), **PHONE)
    begin(page)
    sources = page.evaluate("[...document.querySelectorAll('#shown img')].map((image) => image.src)")
    assert len(set(sources)) == 2
    boxes = [find_box(page, f".image:nth-child({number})") for number in (1, 2)]
    assert boxes[0][1] == boxes[1][1]  # beside each other
    page = open_page(render(ask("cxc_captions")))
    begin(page)
    shown = page.evaluate(
        "[...document.querySelectorAll('#shown h2, #shown blockquote')].map((own) => own.textContent)"
    )
    assert shown == ["One sentence", "Sentence 0.", "The other sentence", "Other sentence 0."]
    page = open_page(render(ask("entailment")))
    begin(page)
    assert page.evaluate("[...document.querySelectorAll('#shown li')].map((own) => own.textContent)") == [
        "One.",
        "Two.",
    ]


def test_unloaded_image_cannot_be_judged(open_page, tmp_path):
    """A button loads it again."""
    page = open_page(render(ask(), image="late.png"))
    begin(page, ready="#shown button")
    assert "The image 0.jpg does not load" in page.inner_text("#shown .bad")
    type_keys(page, "1", "r", "odd", "Escape", "1")
    assert page.inner_text("#count") == "0 of 6 answered"
    (tmp_path / "late.png").write_bytes(base64.b64decode(paint("red").partition(",")[2]))
    page.click("#shown button")
    page.wait_for_selector(READY_FORM)
    type_keys(page, "1")
    assert page.inner_text("#count") == "1 of 6 answered"
    assert page.inner_text("#shown .bad") == ""


def test_only_embedded_images_work_offline(open_page):
    addresses = (paint("red"), "https://example.invalid/a.jpg", "images/a.jpg")
    notes = [open_page(render(ask(), image=address)).inner_text("#network") for address in addresses]
    assert notes == ["This page works offline.", "Its images come from the internet: stay online.", ""]


@pytest.mark.parametrize("why", ["full", "unavailable"])
def test_answers_can_be_saved_without_browser_storage(open_page, save, why):
    """The page says so, and the browser asks before it closes."""
    never = "() => { throw new DOMException('no', 'QuotaExceededError'); }"
    before = {
        "full": f"Storage.prototype.setItem = {never}",
        "unavailable": f"Object.defineProperty(window, 'localStorage', {{get: {never}}})",
    }
    page = open_page(render(ask()), before=before[why])
    begin(page)
    for _ in range(6):
        answer(page, "1")
    assert (
        page.inner_text("#unkept")
        == "This browser keeps nothing: save or submit your answers before you close the page."
    )
    leave = "window.dispatchEvent(new Event('beforeunload', {cancelable: true}))"
    assert not page.evaluate(leave)  # the browser asks first
    assert len(save(page).read_text().splitlines()) == 6
    assert page.evaluate(leave)
    assert list_complaints(page) == []


def test_two_tabs_have_the_same_answers(open_page):
    from playwright.sync_api import expect

    html = render(ask())
    tabs = [open_page(html), open_page(html)]
    for tab in tabs:
        tab.evaluate("document.getElementById('worker').value = 'Ann'; document.getElementById('begin').click()")
        tab.wait_for_selector(READY_FORM)
    time.sleep(0.3)  # people do not answer in two tabs within the same moment
    tabs[0].evaluate("document.querySelectorAll('#form input')[0].click()")
    expect(tabs[1].locator("#form input").first).to_be_checked()
    tabs[1].evaluate("document.getElementById('next').click()")
    tabs[1].evaluate("document.querySelectorAll('#form input')[3].click()")
    expect(tabs[0].locator("#count")).to_have_text("2 of 6 answered")
    tabs[0].evaluate("document.querySelectorAll('#form input')[1].click()")  # not whole without its reason
    time.sleep(0.2)
    assert [tab.inner_text("#count") for tab in tabs] == ["1 of 6 answered", "2 of 6 answered"]


def test_instructions_and_other_tabs_take_no_time(open_page, save):
    clock = """
      window.late = 0;
      const now = performance.now.bind(performance);
      performance.now = () => now() + 1000 * window.late;
    """
    page = open_page(render(ask()), before=clock)
    page.evaluate("late += 100")
    begin(page)
    page.evaluate("late += 5")
    for hidden in ("true", "false"):
        page.evaluate(f"Object.defineProperty(document, 'hidden', {{get: () => {hidden}, configurable: true}})")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange')), late += 100 * document.hidden")
    type_keys(page, "1")
    assert 5 <= json.loads(save(page).read_text())["seconds"] < 100


def test_keys_typed_in_remarks_are_text(open_page, save):
    """The key for help opens the instructions."""
    page = open_page(render(ask(), texts=Texts(examples=("A dog: 100% YES.",))))
    assert not page.evaluate("document.getElementById('examples').open")
    begin(page)
    type_keys(page, "r", "1 s?u", "4", "Escape", "?")
    assert page.evaluate("document.querySelector('#help #examples p').checkVisibility()")
    type_keys(page, "1")
    row = json.loads(save(page).read_text())
    assert (row["answer"], row["remark"]) == ("yes", "1 s?u4")


@pytest.mark.parametrize("name", ["eccv", "entailment", "failures"])
def test_controls_are_named_and_focus_moves_on(open_page, name):
    page = open_page(render(ask(name)))
    unnamed = """[...document.querySelectorAll('input, textarea, button')].filter((control) => control.checkVisibility()
      && !(control.labels?.length || control.textContent.trim() || control.ariaLabel)).length"""
    assert page.evaluate(unnamed) == 0
    begin(page)
    assert page.evaluate("document.activeElement.id") == "shown"
    type_keys(page, "Tab")
    assert page.evaluate("document.activeElement.matches('#form input')")
    type_keys(page, "b" if name == "failures" else "2")
    assert page.evaluate("document.activeElement.checked && document.activeElement.matches(':focus-visible')")
    assert page.evaluate(unnamed) == 0
    type_keys(page, "Enter")
    assert page.evaluate("document.activeElement.id") == "shown"


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

        def do_GET(self):
            """The browser asks for an icon."""
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}", forms
        server.shutdown()


def test_mturk_worker_submits_two_hits(open_page, turk, tmp_path):
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
        page = open_page(html, query="?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=h")
        assert page.evaluate("!document.getElementById('worker').checkVisibility()")
        type_keys(page, "Enter", "ArrowRight", "PageUp", "s")
        assert page.inner_text("#message") == "Accept the HIT before you submit answers."
        page = open_page(html, query=f"?assignmentId=a{number}&workerId=W1&turkSubmitTo={host}")
        page.click("#begin")
        assert place(page) == "Practice 1 of 1"
        type_keys(page, "ArrowRight", "r", "Caf\u00e9 \U0001f600", "Escape", "PageUp", "s")
        assert page.inner_text("#message").startswith("Answer all questions before you submit them.")
        type_keys(page, "ArrowRight", "PageDown", "Enter")
        assert page.inner_text("#message") == "All 2 questions are answered: submit them. Thank you."
        page.click("#save")
        page.wait_for_url("http:**")
        assert list_complaints(page) == []
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
    assert table["answer"].tolist() == ["3.0", "2.0"] * 2
    assert table["remark"].tolist() == ["Caf\u00e9 \U0001f600", ""] * 2
    assert set(table["worker"].tolist()) == {"w1"}
    assert len(forms) == 2


@pytest.mark.parametrize("name", schemes())
def test_page_is_sound_from_start_to_questions(open_page, name):
    texts = Texts(consent=("Your answers are published.",), examples=("A dog.",))
    practice = {"practice": [(ask(pair_id="practice").sheets[0][0], True)]} if name == "eccv" else {}
    page = open_page(render(ask(name), texts=texts, **practice))
    assert_sound(page, 6)
    page.evaluate("document.getElementById('agree').checked = true")
    begin(page)
    type_keys(page, *ANSWERED[name][2][0], "s")
    page.evaluate("document.getElementById('unkept').hidden = false")
    assert_sound(page, 15)
