"""Texts from data made safe to show, and messages on the terminal.

Rich is imported where something is printed: most runs import this module, and print nothing with it.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import StringIO
from typing import TYPE_CHECKING

from markupsafe import Markup

from cxc_eccv.errors import escape

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

MARKDOWN_CHARACTERS = re.compile(r"([\\`*_{}\[\]|~#$])")


def visible(value: object, *, lines: bool = False) -> str:
    """The text with every acting character escaped; ``lines`` keeps line breaks."""
    return escape(str(value), keep="\n" if lines else "")


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
    marked = MARKDOWN_CHARACTERS.sub(r"\\\1", visible(" ".join(str(value).split())))
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


def is_code(title: str) -> bool:
    """Whether a fact of this title is for programs, and shown as code."""
    return "sha256" in title or title == "Command"


LATEX_ESCAPES = {
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
    "\N{LESS-THAN OR EQUAL TO}": r"$\leq$",
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
    text = "".join(LATEX_ESCAPES.get(char, char) for char in visible(" ".join(str(value).split())))
    return HYPHENS.sub(lambda hyphen: "-{}" if text[hyphen.end()] == "-" else "$-$", text)


PIPE_WIDTH = 1_000_000
"""Width used for a pipe, which has no edge unless COLUMNS sets one."""


def say(message: object, *, err: bool = False) -> None:
    """Print a message, with ``err`` on standard error; control characters are shown as escapes."""
    stream = sys.stderr if err else sys.stdout
    with _hide_bars():
        print(visible(message, lines=True), file=stream, flush=True)


def _hide_bars() -> AbstractContextManager[object]:
    """Clear the progress bars on the terminal, and draw them again afterwards."""
    bars = sys.modules.get("tqdm")
    return nullcontext() if bars is None else bars.tqdm.external_write_mode()


def has_terminal() -> bool:
    """Whether standard error, where progress bars are, is a terminal; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def show_steps(total: int, *, progress: bool = True) -> Iterator[Callable[[str], None]]:
    """A bar over the steps of a task, on standard error where that is a terminal; calls begin the next step by name."""
    from tqdm import tqdm

    started = 0
    with tqdm(total=total, bar_format=STEPS, leave=False, disable=not (progress and has_terminal())) as bar:

        def begin(step: str) -> None:
            nonlocal started
            started += 1
            bar.n = started - 1
            bar.set_description_str(visible(step))

        yield begin


STEPS = "{desc} |{bar:20}| {n_fmt}/{total_fmt} [{elapsed}]"
"""A line of the bar: the step, how many are done, and the time since the first began."""


def fit_lines(text: str, width: int = 80) -> str:
    r"""Break lines at blanks so that they fit a terminal of ``width`` columns; addresses and paths stay whole.

    Example:
        >>> print(fit_lines("  - one two three", 12))
          - one two
              three
    """
    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        whole = textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        lines.append(whole)
    return "\n".join(lines)


def print_shown(shown: RenderableType, console: Console | None = None) -> None:
    """Print to a terminal within its width or that of COLUMNS, else to a pipe or a file at full width."""
    from rich.console import Console

    console = console or Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(file=console.file, width=PIPE_WIDTH)
    console.print(shown, crop=False)


def shown_text(shown: RenderableType) -> str:
    """What :func:`print_shown` would print, without colours and without the last line break."""
    from rich.console import Console

    width = console.width if (console := Console()).is_terminal or "COLUMNS" in os.environ else PIPE_WIDTH
    with (plain := Console(width=width, color_system=None)).capture() as captured:
        plain.print(shown, crop=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()).strip("\n")


def shown_html(shown: RenderableType) -> str:
    """What :func:`print_shown` would print, for a notebook."""
    from rich.console import Console

    console = Console(width=NOTEBOOK_WIDTH, file=StringIO(), record=True, color_system="truecolor")
    console.print(shown, crop=False)
    return console.export_html(inline_styles=True, code_format=NOTEBOOK_HTML)


NOTEBOOK_WIDTH = 120
NOTEBOOK_HTML = (
    '<pre style="white-space: pre; overflow-x: auto; line-height: normal; font-family: monospace">{code}</pre>'
)


def code_block(value: str, language: str) -> str:
    """A code block; its fence is longer than any fence in the text."""
    longest = max(map(len, re.findall("`+", value)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{value}\n{fence}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; numbers are aligned right and grouped by thousands."""
    lines = [list(row) for row in rows]
    rules = []
    for column in range(len(header)):
        is_numeric = all(isinstance(line[column], int | float | None) for line in lines)
        rules.append("---:" if lines and is_numeric else "---")
    rule = "|".join(rules)
    body = [f"| {' | '.join(map(markdown_cell, line))} |" for line in lines]
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
