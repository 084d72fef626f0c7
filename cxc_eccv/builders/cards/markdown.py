"""Markdown: tables, and texts out of data that shall stand in it as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["cell", "code", "fenced", "table", "text"]

SPECIAL = re.compile(r"([\\`*_\[\]~#$])")


def text(value: object) -> str:
    r"""A text that Markdown and HTML both show as it is, on one line. A bar is left to :func:`cell`.

    Example:
        >>> print(text("a_b\n<script>"))
        a\_b &lt;script&gt;
    """
    marked = SPECIAL.sub(r"\\\1", " ".join(str(value).split()))
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(value: object) -> str:
    """A text in a code span, which a backtick in it cannot end.

    Example:
        >>> code("a `b` c")
        '`a  b  c`'
    """
    return f"`{' '.join(str(value).splitlines()).replace('`', ' ')}`"


def fenced(value: str, language: str) -> str:
    """A code block, whose fence is longer than any within.

    Example:
        >>> fenced("x = 1", "python").splitlines()[0]
        '```python'
    """
    longest = max(map(len, re.findall("`+", value)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{value}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; numbers are aligned right and grouped by thousands.

    Example:
        >>> print(table(["split", "rows"], [["test", 44045]]))
        | split | rows |
        |---|---:|
        | test | 44,045 |
    """
    lines = [list(row) for row in rows]
    numeric = [
        bool(lines) and all(isinstance(line[column], int | float | None) for line in lines)
        for column in range(len(header))
    ]
    rule = "|".join("---:" if right else "---" for right in numeric)
    body = ["| " + " | ".join(cell(value) for value in line) + " |" for line in lines]
    return "\n".join(["| " + " | ".join(header) + " |", f"|{rule}|", *body])


def cell(value: object) -> str:
    r"""One cell's text; a bar is escaped, None is empty.

    Example:
        >>> cell(1234567), cell(2.5), cell(None), cell("a|b")
        ('1,234,567', '2.5', '', 'a\\|b')
    """
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if value < 1000 else f"{value:,.0f}"
    return str(value).replace("|", "\\|").replace("\n", " ")
