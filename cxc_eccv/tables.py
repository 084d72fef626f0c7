"""Tables of numbers, made once and written for a console, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Literal

from cxc_eccv.terminal import latex_text, markdown_text, upper_first, visible
from cxc_eccv.writing import shield

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table as RichTable
    from rich.text import Text

MISSING = "\N{EM DASH}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, perhaps bold, with its deviation and its interval."""

    text: str
    deviation: str = ""
    interval: str = ""
    strong: bool = False

    @property
    def beside(self) -> str:
        """Deviation and interval."""
        return " ".join(filter(None, (self.deviation, self.interval)))

    def __str__(self) -> str:
        return f"{self.text} {self.beside}".rstrip()


def interval_cell(
    value: float, low: float, high: float, form: str = "{:.1f}", *, scale: float = 1, strong: bool = False
) -> Cell:
    """A number with its interval; ``form`` shows each of the three, times ``scale``.

    Example:
        >>> print(interval_cell(0.5, 0.25, 0.75, scale=100))
        50.0 [25.0, 75.0]
    """
    text, below, above = (form.format(scale * number) for number in (value, low, high))
    return Cell(text, interval=f"[{below}, {above}]", strong=strong)


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The column by which rows are ordered, None for no column, and the columns whose least value is the best.

    The reader of a page can order the rows by any other column.
    """

    column: int | None
    ascending: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Table:
    """A table: headings per column, the outermost first, and rows; a row of a single cell opens a section.

    ``lead`` says in sentences what the table shows, and stands above the rows. Rows in ``highlighted`` stand out on a
    page, and ``order`` is given where its reader may order them.
    ``notes`` and ``cautions`` stand below. So does ``bold``, which says what is bold, in each form that shows bold;
    and, on a console alone, ``elsewhere``, which says which file has more. Columns in ``prose`` are texts, which may
    wrap, and ``styles`` are those of the rows on a console. ``data`` names the data behind the numbers; tables that are
    shown together name it once, in the first line. A ``compact`` table has no empty lines around it on a console, and
    its names do not wrap. ``doubts`` are the models whose numbers are suspect, each with sentences that say why; in
    LaTeX the caption names the models, and comments at the top hold the sentences. ``label`` is that of LaTeX; without
    one it is made of the title.
    """

    header: Sequence[Sequence[str]]
    rows: Sequence[Sequence[str | Cell]]
    title: str = ""
    subtitle: str = ""
    notes: Sequence[str] = ()
    cautions: Sequence[str] = ()
    bold: str = ""
    elsewhere: str = ""
    lead: Sequence[str] = ()
    prose: frozenset[int] = frozenset()
    styles: Sequence[str] = ()
    highlighted: frozenset[int] = frozenset()
    order: RowOrder | None = None
    data: str = ""
    compact: bool = False
    doubts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    label: str = ""

    @property
    def headings(self) -> list[str]:
        """One text per column."""
        return [" ".join(filter(None, column)) for column in self.header]

    @property
    def below(self) -> tuple[str, ...]:
        """The lines below the table on a page and in Markdown, which both show bold."""
        return (*self.notes, *filter(None, [self.bold]), *self.cautions, *self.doubt_lines)

    @property
    def doubt_lines(self) -> list[str]:
        """A line for each sentence that makes the numbers of a model suspect."""
        return describe_doubts(self.doubts)


def describe_doubts(doubts: Mapping[str, Iterable[str]]) -> list[str]:
    """What to check before the numbers of each of these models are believed, a line for each sentence."""
    lines = []
    for model, sentences in doubts.items():
        lines += [f"Check {model} first: {sentence}" for sentence in sentences]
    return lines


def _name_data(tables: Iterable[Table]) -> list[str]:
    """The first line: the data behind the tables."""
    return [upper_first(visible(data)) for data in dict.fromkeys(table.data for table in tables) if data]


def tables_to_console(tables: Sequence[Table]) -> RenderableType:
    """Render tables for a terminal."""
    from rich.console import Group
    from rich.text import Text

    blocks: list[RenderableType] = [Text(data, style="bold") for data in _name_data(tables)]
    for table in tables:
        if blocks and (table.compact or not isinstance(blocks[-1], _Fitted)):
            blocks.append(Text())
        subtitle = f", {table.subtitle}" if table.subtitle else ""
        if table.title:
            blocks.append(Text.assemble((visible(table.title), "bold"), (visible(subtitle), "dim")))
        blocks += [Text(visible(sentence)) for sentence in table.lead]
        if table.rows:
            blocks.append(_Fitted(table))
        blocks += [Text(visible(note), style="dim") for note in table.notes]
        blocks += [_BoldLegend(table.bold)] if table.bold else []
        blocks += [Text(visible(table.elsewhere), style="dim")] if table.elsewhere else []
        blocks += [Text(visible(caution)) for caution in (*table.cautions, *table.doubt_lines)]
    return Group(*blocks)


@dataclass(frozen=True, slots=True)
class _BoldLegend:
    """What is bold, where the console shows it: a pipe or a file has plain text."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's protocol: one line, or none."""
        from rich.text import Text

        if console.color_system is not None:
            yield Text(visible(self.text), style="dim")


LONGEST_WORD = 32
"""Longer words of names and prose are broken if there is no room."""


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A table within the width of a terminal: if it is too wide, columns continue in tables below; no number is cut."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's protocol: the fewest tables, with intervals below their values and words of headings if necessary."""
        places = range(1, len(self.table.header))
        width = options.max_width
        for parts in range(1, max(2, len(self.table.header))):
            bounds = [len(places) * part // parts for part in range(parts + 1)]
            for stacked in (False, True):
                drawn = [self._draw(places[start:end], stacked=stacked) for start, end in pairwise(bounds)]
                if all(least <= width for _, least in drawn):
                    yield from (shown for shown, _ in drawn)
                    return
        for shown, least in drawn:  # a terminal narrower than its numbers wraps them
            shown.width = max(least, width)
            yield shown

    def _draw(self, places: Sequence[int], *, stacked: bool) -> tuple[RichTable, int]:
        """The table of rich, and the least width at which it breaks no number."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        compact = self.table.compact
        shown = RichTable(box=box.SIMPLE_HEAD, show_edge=not compact)
        least = 1 - 2 * compact
        columns = (0, *places)
        rows = [[_console_cell(cell, stacked=stacked) for cell in row] for row in self.table.rows]
        headings = [visible(" ".join(filter(None, self.table.header[place]))).split(" ") for place in columns]
        height = max(map(len, headings)) if stacked else 1
        for place, heading_words in zip(columns, headings, strict=True):
            wraps = place in self.table.prose or (place == 0 and not compact)
            lines = heading_words if stacked and not wraps else [" ".join(heading_words)]
            heading = Text("\n".join([*[""] * (height - len(lines)), *lines]))
            texts = [heading, *(row[place] for row in rows if place < len(row))]
            words = [Text(word) for text in texts for word in (text.plain.split() if wraps else text.plain.split("\n"))]
            longest = max((word.cell_len for word in words), default=0)
            least += 3 + (min(longest, LONGEST_WORD) if wraps else longest)
            justify: Literal["left", "right"] = "left" if wraps or place == 0 else "right"
            shown.add_column(heading, justify=justify, no_wrap=not wraps, overflow="fold")
        for row, style in zip(rows, self.table.styles or [""] * len(rows), strict=True):
            if len(row) == 1:
                shown.add_row(row[0], style="bold")
            elif any(row[place] for place in places) or not any(row[1:]):
                shown.add_row(*(row[place] for place in columns), style=style)
        return shown, least


def _console_cell(cell: str | Cell, *, stacked: bool) -> Text:
    from rich.text import Text

    if isinstance(cell, str):
        return Text(visible(cell))
    text = Text(visible(cell.text), "bold" if cell.strong else "")
    return text.append(f"{chr(10) if stacked else ' '}{visible(cell.beside)}", "") if cell.beside else text


def tables_to_markdown(tables: Sequence[Table]) -> str:
    """Write tables as Markdown, each below its title."""
    data = [_make_sentence(markdown_text(name)) for name in _name_data(tables)]
    return "\n\n".join([*data, *(block for table in tables for block in _markdown_blocks(table))]) + "\n"


def _markdown_blocks(table: Table) -> Iterator[str]:
    if table.title:
        yield f"### {markdown_text(table.title)}"
    if table.subtitle:
        yield markdown_text(_make_sentence(upper_first(table.subtitle)))
    yield from map(markdown_text, table.lead)
    if table.rows:
        rules = ["---" if place == 0 or place in table.prose else "---:" for place in range(len(table.header))]
        lines = [f"| {' | '.join(map(markdown_text, table.headings))} |", f"|{'|'.join(rules)}|"]
        lines += [f"| {' | '.join(_markdown_cells(row, len(rules)))} |" for row in table.rows]
        yield "\n".join(lines)
    yield from map(markdown_text, table.below)


def _markdown_cells(row: Sequence[str | Cell], width: int) -> Iterator[str]:
    if len(row) == 1:
        yield from (f"*{markdown_text(row[0])}*", *[""] * (width - 1))
        return
    for cell in map(_to_cell, row):
        text = markdown_text(cell.text)
        yield f"{f'**{text}**' if cell.strong else text} {cell.beside}".rstrip()


PREAMBLE = r"% In the preamble: \usepackage{booktabs,graphicx}"
SHRINK = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"
"""Shrinks a tabular to the width of the page."""
LONGEST_LABEL = 40
JOINING_WORDS = frozenset(
    ["a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "under", "with"]
)
"""Words with which a label does not end."""


def tables_to_latex(tables: Sequence[Table]) -> str:
    """Write tables as LaTeX floats with booktabs rules; title, data, notes and cautions form the caption.

    What makes numbers suspect stands once, in comments at the top.
    """
    doubts = dict.fromkeys(visible(line) for table in tables for line in table.doubt_lines)
    comments = [f"% {line}" for line in (*_name_data(tables), *doubts)]
    head = "\n".join([*comments, PREAMBLE])
    labelled = zip(tables, _make_labels(tables), strict=True)
    return "\n\n".join([head, *("\n".join(_latex_lines(table, label)) for table, label in labelled)]) + "\n"


def _make_labels(tables: Sequence[Table]) -> list[str]:
    """A label of each table: its own or the first words of its title, with a number where tables begin alike."""
    names = [table.label or _shorten_title(table.title) for table in tables]
    return [
        f"tab:{name}-{names[: place + 1].count(name)}" if names.count(name) > 1 else f"tab:{name}"
        for place, name in enumerate(names)
    ]


def _shorten_title(title: str) -> str:
    """The first words of a title as a label; one that is cut does not end with a preposition or an article."""
    lines = wrap(re.sub(r"[^a-z0-9]+", " ", title.lower()), LONGEST_LABEL)
    words = lines[0].split() if lines else []
    while len(lines) > 1 and len(words) > 1 and words[-1] in JOINING_WORDS:
        words.pop()
    return "-".join(words) or "table"


def _latex_lines(table: Table, label: str) -> Iterator[str]:
    from pandas import DataFrame, MultiIndex

    title = ", ".join(filter(None, (table.title, table.data, table.subtitle)))
    notes = [title, *table.notes, table.bold, *table.cautions]
    if table.doubts:
        notes.append(f"Check {', '.join(table.doubts)} first (see the comment above the table)")
    caption = " ".join(_make_sentence(note) for note in notes if note)
    yield from (r"\begin{table*}[t]", r"\centering", rf"\caption{{{latex_text(caption)}}}")
    yield rf"\label{{{label}}}"
    if table.rows:
        columns = "".join("l" if place == 0 or place in table.prose else "r" for place in range(len(table.header)))
        levels = [list(map(latex_text, level)) for level in zip(*table.header, strict=True)]
        headings = levels[0] if len(levels) == 1 else MultiIndex.from_arrays(levels)
        frame = DataFrame([_latex_row(row, len(columns)) for row in table.rows], columns=headings)
        tabular = frame.to_latex(index=False, escape=False, column_format=columns, multicolumn_format="c")
        yield from (SHRINK, f"{tabular.strip()}%", "}")
    yield r"\end{table*}"


def _latex_row(row: Sequence[str | Cell], width: int) -> list[str]:
    if len(row) == 1:
        return [rf"\textit{{{latex_text(row[0])}}}", *[""] * (width - 1)]
    return [_latex_cell(cell) for cell in map(_to_cell, row)]


def _latex_cell(cell: Cell) -> str:
    """The text with its deviation; the interval stands in small print below them, where it takes less room."""
    text = latex_text(cell.text)
    text = rf"\textbf{{{text}}}" if cell.strong else text
    text += rf" {{\scriptsize {latex_text(cell.deviation)}}}" if cell.deviation else ""
    interval = rf"{{\tiny {latex_text(cell.interval)}}}"
    return rf"\shortstack[r]{{{text}\\ {interval}}}" if cell.interval else text


def tables_to_rows(tables: Iterable[Table]) -> list[dict[str, object]]:
    """The rows of tables by their headings, below ``table`` for the title; texts that a spreadsheet runs are shielded.

    A row that opens a section is left out.
    """
    return [
        {"table": shield(table.title), **_name_cells(table, row)}
        for table in tables
        for row in table.rows
        if len(row) > 1
    ]


def _name_cells(table: Table, row: Sequence[str | Cell]) -> dict[str, str]:
    return {heading: shield(str(cell).strip()) for heading, cell in zip(table.headings, row, strict=False)}


def rows_to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Write rows as CSV; a column that a row lacks is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _to_cell(cell: str | Cell) -> Cell:
    """The cell without the spaces that indent a name on a console."""
    return Cell(cell.strip()) if isinstance(cell, str) else cell


def _make_sentence(text: str) -> str:
    """The text with a full stop at its end."""
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
