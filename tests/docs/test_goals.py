"""What readers come for: each goal is two clicks from Home, and its first command comes soon."""

import re

import pytest
from pages import DOCS, FENCE, HEADING, ROOT, links_of, name_of

HOME = DOCS / "index.md"
MOST_CLICKS = 2
MOST_WORDS_BEFORE_COMMAND = 120
MOST_WORDS = 30_000

GOALS = {
    "score my own vectors": ("score_a_model.md", None),
    "which metric to report": ("which_numbers.md", None),
    "why a number differs": ("why_different.md", None),
    "load the labels": ("load_labels.md", None),
    "train on the labels": ("training.md", None),
    "whether model A is better": ("compare.md", None),
    "labels of my own": ("own_labels.md", None),
    "ask people for labels": ("annotation.md", None),
    "a model judges": ("judges.md", None),
    "the dual encoder of the CxC paper": ("baselines.md", "dual encoder"),
    "sentence-transformers and mteb": ("integrations.md", None),
    "score a cross-encoder": ("encoding.md", "cross-encoder"),
    "submit": ("leaderboard.md", None),
}
"""Goal to its page, and to words of the heading it begins with; None for the top of the page."""

COMMAND = ("sh", "python", "text")
REFERENCE = {"tasks.md"}


def pages_linked(path):
    """The pages that a page links to; test_site.py finds links that lead nowhere."""
    places = {(path.parent / link.partition("#")[0]).resolve() for link in links_of(path) if "://" not in link}
    return {place for place in places if place.suffix == ".md" and place.is_file()}


def clicks_from(start):
    """Page to the smallest number of links that lead there."""
    clicks = {start: 0}
    waiting = [start]
    for path in waiting:
        for page in pages_linked(path) - clicks.keys():
            clicks[page] = clicks[path] + 1
            waiting.append(page)
    return clicks


def section(path, heading):
    """The page's text from a heading on that has these words."""
    text = path.read_text(encoding="utf-8")
    if heading is None:
        return text
    found = [match for match in HEADING.finditer(text) if heading in match["text"].lower()]
    assert found, f"{name_of(path)} has no heading with {heading!r}"
    return text[found[0].start() :]


def words_before_command(text):
    """Words before the first block with a command."""
    for block in FENCE.finditer(text):
        if block["info"].split(" ")[0] in COMMAND:
            return len(re.findall(r"\w[\w'-]*", text[: block.start()]))
    raise AssertionError("no command")


@pytest.mark.parametrize("goal", GOALS)
def test_goal_is_two_clicks_from_home(goal):
    page, heading = GOALS[goal]
    assert clicks_from(HOME)[DOCS / page] <= MOST_CLICKS
    assert words_before_command(section(DOCS / page, heading)) <= MOST_WORDS_BEFORE_COMMAND


def test_readme_links_to_own_vectors():
    assert DOCS / "score_a_model.md" in pages_linked(ROOT / "README.md")
    assert words_before_command(section(ROOT / "README.md", "try it")) <= MOST_WORDS_BEFORE_COMMAND


def test_home_shows_command_soon():
    assert words_before_command(section(HOME, None)) <= MOST_WORDS_BEFORE_COMMAND


def test_pages_beside_reference_are_short():
    pages = [path for path in DOCS.glob("*.md") if path.name not in REFERENCE]
    words = {path.name: len(path.read_text(encoding="utf-8").split()) for path in pages}
    assert sum(words.values()) <= MOST_WORDS, sorted(words.items(), key=lambda item: -item[1])


def test_clicks_are_counted(tmp_path):
    for name, text in (
        ("a", "[b](b.md) [x](https://example.org/x.md)"),
        ("b", "[c](c.md#part) ![i](i.svg)"),
        ("c", "end"),
    ):
        (tmp_path / f"{name}.md").write_text(text)
    assert {path.stem: clicks for path, clicks in clicks_from(tmp_path / "a.md").items()} == {"a": 0, "b": 1, "c": 2}


@pytest.mark.parametrize(
    ("text", "words"), [("# One two\n\n```sh\nls\n```\n", 2), ("a\n```json\n{}\n```\nb\n```sh\n```\n", 3)]
)
def test_words_are_counted_up_to_command(text, words):
    assert words_before_command(text) == words
