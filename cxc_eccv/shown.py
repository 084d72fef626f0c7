"""Texts out of data as they are shown: nothing in them acts on a terminal or in Markdown."""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup

__all__ = ["code_span", "markdown_text", "visible"]

ACTING = ("Cc", "Cs", "Zl", "Zp")
"""Categories of Unicode that move cursors, begin lines or cannot be written: controls, lone surrogates, separators."""

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that turn the order of those around them."""

SPECIAL = re.compile(r"([\\`*_{}\[\]|~#$])")


def visible(value: object, *, lines: bool = False) -> str:
    r"""A text in which every character that would act is written as its escape.

    Args:
        value: a name, a file's name, a message.
        lines: keep line feeds, for a message of several lines.

    Example:
        >>> print(visible("clip\x1b[31m[v1]\nñ"))
        clip\x1b[31m[v1]\nñ
    """
    return "".join(
        char.encode("unicode_escape").decode() if _acts(char) and not (lines and char == "\n") else char
        for char in str(value)
    )


def markdown_text(value: object) -> Markup:
    r"""A text that Markdown and HTML both show as it is, on one line.

    Example:
        >>> print(markdown_text("a_b | <script>"))
        a\_b \| &lt;script&gt;
    """
    if isinstance(value, Markup):
        return value
    marked = SPECIAL.sub(r"\\\1", visible(" ".join(str(value).split())))
    return Markup(marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))  # noqa: S704 - escaped here


def code_span(value: object) -> Markup:
    r"""A text as code in Markdown, also in a table's cell; it cannot end the span, nor the cell.

    References:
        CommonMark 0.31, section 6.1; GitHub Flavored Markdown, section 4.10: a bar ends a cell within a span, too.

    Example:
        >>> print(code_span("clip.npz"), code_span("a`` `b"), code_span("a|b"))
        `clip.npz` ```a`` `b``` <code>a\|b</code>
    """
    text = visible(value)
    if "|" in text or not text.strip():
        return Markup(f"<code>{markdown_text(text)}</code>")  # noqa: S704 - escaped there
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return Markup(f"{fence}{pad}{text}{pad}{fence}")  # noqa: S704 - a code span shows all as it is


def _acts(char: str) -> bool:
    return char in BIDI or unicodedata.category(char) in ACTING
