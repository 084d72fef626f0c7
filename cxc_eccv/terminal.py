"""Texts from data made safe to show, messages on the terminal, and tables that fit its width.

Rich is imported where something is printed: most runs import this module, and print nothing with it.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text

ACTING = ("Cc", "Cs", "Zl", "Zp")
"""Unicode categories that move the cursor, start a line or cannot be encoded."""

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

SPECIAL = re.compile(r"([\\`*_{}\[\]|~#$])")


def visible(value: object, *, lines: bool = False) -> str:
    """The text with every acting character escaped; ``lines`` keeps line breaks."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode() if _acts(char) and not (lines and char == "\n") else char
        for char in text
    )


def upper_first(text: str) -> str:
    """The text with its first letter in upper case."""
    return f"{text[:1].upper()}{text[1:]}"


def markdown_text(value: object) -> Markup:
    r"""Escape a text for Markdown and HTML, on one line.

    Example:
        >>> print(markdown_text("a_b | <script>"))
        a\_b \| &lt;script&gt;
    """
    if isinstance(value, Markup):
        return value
    marked = SPECIAL.sub(r"\\\1", visible(" ".join(str(value).split())))
    return Markup(marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))  # noqa: S704 - escaped here


def code_span(value: object) -> Markup:
    r"""Format a text as code in Markdown; it can end neither the span nor the cell of a table.

    References:
        CommonMark 0.31, section 6.1; GitHub Flavored Markdown, section 4.10: a bar ends a cell even within a span.

    Example:
        >>> print(code_span("clip.npz"), code_span("a`` `b"), code_span("a|b"))
        `clip.npz` ```a`` `b``` <code>a\|b</code>
    """
    text = visible(value)
    if "|" in text or not text.strip():
        return Markup(f"<code>{markdown_text(text)}</code>")  # noqa: S704 - escaped there
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return Markup(f"{fence}{pad}{text}{pad}{fence}")  # noqa: S704 - a code span shows its text verbatim


LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\`{}",
    "[": "{[}",
    "*": "{*}",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
    "\N{EM DASH}": r"\textemdash{}",
} | {char: f"\\{char}" for char in "{}$&#%_"}
"""Characters that LaTeX interprets; after a line break, a bracket or a star would be read as its option."""

HYPHENS = re.compile(r"-(?=-)|(?<![\w)\]-])-(?=\d)")
"""A hyphen before another one, which would become a dash, and the minus sign of a number."""


def latex_text(value: object) -> str:
    r"""Escape a text for LaTeX, on one line; negative numbers get a minus sign.

    Example:
        >>> print(latex_text("a_b & 50 % [v1]"), latex_text("ViT-B--32 at -0.5"))
        a\_b \& 50 \% {[}v1] ViT-B-{}-32 at $-$0.5
    """
    text = "".join(LATEX.get(char, char) for char in visible(" ".join(str(value).split())))
    return HYPHENS.sub(lambda hyphen: "-{}" if text[hyphen.end()] == "-" else "$-$", text)


def _acts(char: str) -> bool:
    return char in BIDI or unicodedata.category(char) in ACTING


UNBOUNDED = 1_000_000
"""Width used for a pipe, which has no edge."""

LONGEST_WORD = 32
"""Longer words of names and prose may be broken if there is no room."""


def say(message: object, *, err: bool = False) -> None:
    """Print a message, with ``err`` on standard error; control characters are shown as escapes."""
    print(visible(message, lines=True), file=sys.stderr if err else sys.stdout, flush=True)


def print_shown(shown: RenderableType, console: Console | None = None) -> None:
    """Print to a terminal within its width, to a pipe or a file at full width."""
    from rich.console import Console

    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=UNBOUNDED)
    console.print(shown, crop=False)


def shown_text(shown: RenderableType) -> str:
    """What :func:`print_shown` would print, without colours and without the last line break."""
    from rich.console import Console

    width = console.width if (console := Console()).is_terminal else UNBOUNDED
    with (plain := Console(width=width, color_system=None)).capture() as captured:
        plain.print(shown, crop=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()).strip("\n")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of texts that adapts to the width of the terminal.

    If the table is too wide, its columns are stacked as ``stacked`` allows, in this order; if it is still too wide,
    further columns continue in tables below. Lines wrap only in ``prose`` columns.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    prose: frozenset[int] = frozenset()
    stacked: Sequence[Sequence[Sequence[int]]] = ()
    styles: Sequence[str] = ()
    title: str = ""
    bold: Collection[tuple[int, int]] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's protocol: the first arrangement that fits."""
        plain = [(place,) for place in range(len(self.header))]
        for groups in (plain, *self.stacked):
            table = self._table(groups)
            if _least(table, console, options) <= options.max_width:
                yield _widen(table, options.max_width - _least(table, console, options))
                return
        yield from self._continue_below([tuple(group) for group in (self.stacked or [plain])[-1]], console, options)

    def _continue_below(
        self, groups: Sequence[tuple[int, ...]], console: Console, options: ConsoleOptions
    ) -> Iterator[Table]:
        """Tables below each other, each with the row names and at least one further column."""
        names, *rest = groups
        while rest:
            taken = 1
            while taken < len(rest) and self._fits([names, *rest[: taken + 1]], console, options):
                taken += 1
            table = self._table([names, *rest[:taken]])
            least = _least(table, console, options)
            if least > options.max_width:
                table.width = least  # wider than the terminal, which wraps it: nothing is cut
            yield _widen(table, max(0, options.max_width - least))
            rest = rest[taken:]

    def _fits(self, groups: Sequence[Sequence[int]], console: Console, options: ConsoleOptions) -> bool:
        return _least(self._table(groups), console, options) <= options.max_width

    def _table(self, groups: Sequence[Sequence[int]]) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, title=Text(visible(self.title)) if self.title else None)
        table.title_justify, table.title_style = "left", "bold"
        lines = [[_stack(row, group) for group in groups] for row in self.rows if len(row) > 1]
        of_sections = [word for row in self.rows if len(row) == 1 for word in visible(row[0]).split()]
        for place, group in enumerate(groups):
            heading = _stack(self.header, group)
            is_prose = any(column in self.prose for column in group)
            cells = [heading, *(line[place] for line in lines), *(of_sections if place == 0 else [])]
            words = [word for cell in cells for word in (cell.split() if is_prose else cell.split("\n"))]
            longest = max((Text(word).cell_len for word in words), default=0)
            table.add_column(
                Text(heading),
                justify="left" if place == 0 or is_prose else "right",
                no_wrap=not (place == 0 or is_prose),
                overflow="fold",
                min_width=min(longest, LONGEST_WORD) if place == 0 or is_prose else longest,
                max_width=max((Text(line).cell_len for cell in cells for line in cell.split("\n")), default=0),
            )
        self._add_rows(table, groups)
        return table

    def _add_rows(self, table: Table, groups: Sequence[Sequence[int]]) -> None:
        from rich.text import Text

        styles = self.styles or [""] * len(self.rows)
        for line, (row, style) in enumerate(zip(self.rows, styles, strict=True)):
            if len(row) == 1:
                table.add_section()
                table.add_row(Text(visible(row[0])))
            else:
                bold = [place for at, place in self.bold if at == line]
                table.add_row(*(_stack_styled(row, group, bold) for group in groups), style=style)


def _stack(cells: Sequence[str], group: Sequence[int]) -> str:
    """The cells of several columns below each other; an empty cell takes no line."""
    return "\n".join(text for place in group if (text := visible(cells[place])))


def _stack_styled(cells: Sequence[str], group: Sequence[int], bold: Collection[int]) -> Text:
    from rich.text import Text

    lines = [Text(text, "bold" if place in bold else "") for place in group if (text := visible(cells[place]))]
    return Text("\n").join(lines)


def _widen(table: Table, spare: int) -> Table:
    """Share the spare width among the columns; those that need least get it first."""
    wanting = sorted(table.columns, key=lambda column: (column.max_width or 0) - (column.min_width or 0))
    for place, column in enumerate(wanting):
        least, most = column.min_width or 0, column.max_width or 0
        column.width = least + min(most - least, spare // (len(wanting) - place))
        spare -= column.width - least
    return table


def _least(table: Table, console: Console, options: ConsoleOptions) -> int:
    """The least width at which no number is cut."""
    from rich.measure import Measurement

    return Measurement.get(console, options.update(width=UNBOUNDED), table).minimum


def code_block(value: str, language: str) -> str:
    """A code block; its fence is longer than any fence in the text."""
    longest = max(map(len, re.findall("`+", value)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{value}\n{fence}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; numbers are aligned right and grouped by thousands."""
    lines = [list(row) for row in rows]
    numeric = [
        bool(lines) and all(isinstance(line[column], int | float | None) for line in lines)
        for column in range(len(header))
    ]
    rule = "|".join("---:" if right else "---" for right in numeric)
    body = ["| " + " | ".join(markdown_cell(value) for value in line) + " |" for line in lines]
    return "\n".join(["| " + " | ".join(header) + " |", f"|{rule}|", *body])


def markdown_cell(value: object) -> str:
    r"""The text of a cell; bars are escaped once, None is empty."""
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if value < 1000 else f"{value:,.0f}"
    return re.sub(r"(?<!\\)\|", r"\|", str(value)).replace("\n", " ")
