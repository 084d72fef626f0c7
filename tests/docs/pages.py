"""The pages of the documentation: their fenced blocks, headings and links."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOR_MAINTAINERS = (ROOT / "RELEASING.md", ROOT / "UPSTREAM.md")
PAGES = (ROOT / "README.md", *FOR_MAINTAINERS, *sorted(DOCS.rglob("*.md")))

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\((?P<target>[^)\s]+)\)")
OFFICIAL = "<!-- on the official data -->"
HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: its language, the rest of the info string, its text and first line; what directly follows it.

    ``official`` says that a comment stands in between: this is printed on the official data alone.
    """

    language: str
    info: str
    text: str
    line: int
    follows: bool
    official: bool = False


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def blocks_of(path):
    """Blocks of a page in order."""
    return find_blocks(path.read_text(encoding="utf-8"))


def find_blocks(text):
    """Blocks in order; ``follows`` says that only white space stands between a block and the one before it."""
    found = []
    end = None
    for match in FENCE.finditer(text):
        language, _, info = match["info"].strip().partition(" ")
        lines = [line.removeprefix(match["indent"]) for line in match["text"].splitlines()]
        follows = end is not None and not text[end : match.start()].strip()
        official = end is not None and text[end : match.start()].strip() == OFFICIAL
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(language, info, "\n".join(lines) + "\n", line, follows, official))
        end = match.end()
    return found


def prose_of(path):
    """The text without fenced blocks and code."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def links_of(path):
    return [match["target"] for match in LINK.finditer(CODE.sub("`", prose_of(path)))]


def anchors_of(path):
    """Anchors of the headings, as the site makes them."""
    return {anchor(match["text"]) for match in HEADING.finditer(prose_of(path))}


def anchor(heading):
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    words = re.sub(r"[^\w\s-]", "", plain).strip().lower()
    return re.sub(r"[-\s]+", "-", words)
