"""Tables of numbers, made once and written for a console, as Markdown, as LaTeX and as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from cxc_eccv.terminal import Sheet, latex_text, markdown_text, upper_first, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

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


@dataclass(frozen=True, slots=True)
class Table:
    """A table: headings per column, the outermost first, and rows; a row of a single cell opens a section.

    ``notes`` and ``cautions`` stand below; ``prose``, ``stacked`` and ``styles`` are those of a Sheet. ``data`` names
    the data behind the numbers; tables that are shown together name it once, in the first line.
    """

    header: Sequence[Sequence[str]]
    rows: Sequence[Sequence[str | Cell]]
    title: str = ""
    subtitle: str = ""
    notes: Sequence[str] = ()
    cautions: Sequence[str] = ()
    prose: frozenset[int] = frozenset()
    stacked: Sequence[Sequence[Sequence[int]]] = ()
    styles: Sequence[str] = ()
    data: str = ""

    @property
    def headings(self) -> list[str]:
        """One text per column."""
        return [" ".join(filter(None, column)) for column in self.header]

    @property
    def below(self) -> tuple[str, ...]:
        """The notes and the cautions."""
        return (*self.notes, *self.cautions)


def _name_data(tables: Iterable[Table]) -> list[str]:
    """The first line: the data behind the tables."""
    return [upper_first(visible(data)) for data in dict.fromkeys(table.data for table in tables) if data]


def tables_to_console(tables: Sequence[Table]) -> RenderableType:
    """Render tables for a terminal."""
    from rich.console import Group
    from rich.text import Text

    blocks: list[RenderableType] = [Text(data, style="bold") for data in _name_data(tables)]
    for table in tables:
        if blocks and not isinstance(blocks[-1], Sheet):
            blocks.append(Text())
        subtitle = f", {table.subtitle}" if table.subtitle else ""
        if table.title:
            blocks.append(Text.assemble((visible(table.title), "bold"), (visible(subtitle), "dim")))
        if table.rows:
            rows = [[str(cell) for cell in row] for row in table.rows]
            bold = {
                (line, place)
                for line, row in enumerate(table.rows)
                for place, cell in enumerate(row)
                if isinstance(cell, Cell) and cell.strong
            }
            blocks.append(Sheet(table.headings, rows, table.prose, table.stacked, table.styles, bold=bold))
        blocks += [Text(visible(note), style="dim") for note in table.notes]
        blocks += [Text(visible(caution)) for caution in table.cautions]
    return Group(*blocks)


def tables_to_markdown(tables: Sequence[Table]) -> str:
    """Write tables as Markdown, each below its title."""
    data = [_make_sentence(markdown_text(name)) for name in _name_data(tables)]
    return "\n\n".join([*data, *(block for table in tables for block in _markdown_blocks(table))]) + "\n"


def _markdown_blocks(table: Table) -> Iterator[str]:
    if table.title:
        yield f"### {markdown_text(table.title)}"
    if table.subtitle:
        yield markdown_text(_make_sentence(upper_first(table.subtitle)))
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


def tables_to_latex(tables: Sequence[Table]) -> str:
    """Write tables as LaTeX floats with booktabs rules; title, data, notes and cautions form the caption."""
    head = "\n".join([*(f"% {data}" for data in _name_data(tables)), PREAMBLE])
    return "\n\n".join([head, *("\n".join(_latex_lines(table)) for table in tables)]) + "\n"


def _latex_lines(table: Table) -> Iterator[str]:
    title = ", ".join(filter(None, (table.title, table.data, table.subtitle)))
    caption = " ".join(map(_make_sentence, (title, *table.below)))
    yield from (r"\begin{table*}[t]", r"\centering", rf"\caption{{{latex_text(caption)}}}")
    yield rf"\label{{tab:{re.sub(r'[^a-z0-9]+', '-', table.title.lower()).strip('-')}}}"
    if table.rows:
        columns = "".join("l" if place == 0 or place in table.prose else "r" for place in range(len(table.header)))
        yield from (SHRINK, rf"\begin{{tabular}}{{{columns}}}", r"\toprule")
        yield from _latex_header(table.header)
        yield r"\midrule"
        for place, row in enumerate(table.rows):
            if len(row) == 1:
                gap = r"\addlinespace " if place else ""
                yield rf"{gap}\multicolumn{{{len(columns)}}}{{l}}{{\textit{{{latex_text(row[0])}}}}} \\"
            else:
                yield " & ".join(_latex_cell(cell) for cell in map(_to_cell, row)) + r" \\"
        yield from (r"\bottomrule", r"\end{tabular}%", "}")
    yield r"\end{table*}"


def _latex_header(header: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line per level; above the last line, neighbours with the same headings share one cell with a rule below it."""
    *outer, _ = range(len(header[0]))
    for level in outer:
        cells, rules, start = [], [], 1
        for path, columns in groupby(tuple(column[: level + 1]) for column in header):
            end = start + len(list(columns)) - 1
            text = latex_text(path[-1])
            cells.append(rf"\multicolumn{{{end - start + 1}}}{{c}}{{{text}}}" if text else " &" * (end - start))
            rules += [rf"\cmidrule(lr){{{start}-{end}}}"] if text else []
            start = end + 1
        yield " & ".join(cells) + r" \\"
        yield " ".join(rules)
    yield " & ".join(latex_text(column[-1]) for column in header) + r" \\"


def _latex_cell(cell: Cell) -> str:
    """The text with its deviation; the interval stands in small print below them, where it takes less room."""
    text = latex_text(cell.text)
    text = rf"\textbf{{{text}}}" if cell.strong else text
    text += rf" {{\scriptsize {latex_text(cell.deviation)}}}" if cell.deviation else ""
    interval = rf"{{\tiny {latex_text(cell.interval)}}}"
    return rf"\shortstack[r]{{{text}\\ {interval}}}" if cell.interval else text


LEFT = Markup(' style="text-align: left"')
RIGHT = Markup(' style="text-align: right; white-space: nowrap"')


def tables_to_html(tables: Sequence[Table]) -> Markup:
    """Write tables as HTML for a notebook, which styles them; every text is escaped."""
    data = [Markup("<p><b>{}</b></p>").format(name) for name in _name_data(tables)]
    return Markup("\n").join([*data, *(part for table in tables for part in _html_parts(table))])


def _html_parts(table: Table) -> Iterator[Markup]:
    subtitle = f", {table.subtitle}" if table.subtitle else ""
    if table.title:
        yield Markup("<p><b>{}</b>{}</p>").format(table.title, subtitle)
    if table.rows:
        head = Markup("").join(Markup("<th{}>{}</th>").format(RIGHT, heading) for heading in table.headings)
        body = Markup("\n").join(_html_row(row, len(table.header)) for row in table.rows)
        yield Markup("<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table>").format(head, body)
    yield from (Markup("<p>{}</p>").format(text) for text in table.below)


def _html_row(row: Sequence[str | Cell], width: int) -> Markup:
    name, *cells = map(_to_cell, row)
    span = Markup("") if cells else Markup(' colspan="{}"').format(width)
    heading = Markup("<tr><th{}{}>{}</th>").format(span, LEFT, name.text)
    return heading + Markup("").join(map(_html_cell, cells)) + Markup("</tr>")


def _html_cell(cell: Cell) -> Markup:
    text = Markup("<b>{}</b>").format(cell.text) if cell.strong else escape(cell.text)
    beside = Markup(" <small>{}</small>").format(cell.beside) if cell.beside else ""
    return Markup("<td{}>{}{}</td>").format(RIGHT, text, beside)


def _to_cell(cell: str | Cell) -> Cell:
    """The cell without the spaces that indent a name on a console."""
    return Cell(cell.strip()) if isinstance(cell, str) else cell


def _make_sentence(text: str) -> str:
    """The text with a full stop at its end."""
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
