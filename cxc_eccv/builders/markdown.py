"""Tables and code blocks in Markdown, from texts that ``shown`` made safe or that are our own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def fence(value: str, language: str) -> str:
    """A code block; its fence is longer than any fence in the text."""
    longest = max(map(len, re.findall("`+", value)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{value}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; numbers are aligned right and grouped by thousands."""
    lines = [list(row) for row in rows]
    numeric = [
        bool(lines) and all(isinstance(line[column], int | float | None) for line in lines)
        for column in range(len(header))
    ]
    rule = "|".join("---:" if right else "---" for right in numeric)
    body = ["| " + " | ".join(cell(value) for value in line) + " |" for line in lines]
    return "\n".join(["| " + " | ".join(header) + " |", f"|{rule}|", *body])


def cell(value: object) -> str:
    r"""The text of a cell; bars are escaped once, None is empty."""
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if value < 1000 else f"{value:,.0f}"
    return re.sub(r"(?<!\\)\|", r"\|", str(value)).replace("\n", " ")
