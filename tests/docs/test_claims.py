"""Sentences about others that nobody here can know to be true: they say what is known to us instead."""

import re
from pathlib import Path

import pytest
from pages import PAGES, name_of

import cxc_eccv as ce

PACKAGE = Path(ce.__file__).parent
SOURCES = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".toml", ".jinja")]

UNKNOWABLE = re.compile(
    r"\b(was|were|been) never (released|published|shared)|\bnever (released|published|shared) (it|them)\b"
    r"|\b(did|do|does) not (publish|release|share)\b|\bpairs [\w ]{0,30}(was|were) not (published|released)",
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    "sentence",
    [
        "the pairs that people rejected were not published",
        "and the paper's labels were never released.",
        "1,000 of Flickr30k, and never released them.",
        "they did not publish the rejected ones",
    ],
)
def test_unknowable_sentence_is_found(sentence):
    assert UNKNOWABLE.search(sentence)


def test_nothing_is_said_of_releases_that_nobody_knows():
    texts = {name_of(path): path.read_text(encoding="utf-8") for path in PAGES}
    texts |= {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCES}
    found = {}
    for name, text in texts.items():
        joined = re.sub(r'"\s*\n\s*f?"', "", text)  # a text of several lines of code
        if match := UNKNOWABLE.search(" ".join(joined.split())):
            found[name] = match[0]
    assert found == {}
