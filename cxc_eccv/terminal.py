"""Messages on the terminal, and tables that fit its width without cutting a number."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from cxc_eccv.shown import visible

UNBOUNDED = 1_000_000
"""Width used for a pipe, which has no edge."""

LONGEST_WORD = 32
"""Longer words of names and prose may be broken if there is no room."""


def say(message: object, *, err: bool = False) -> None:
    """Print a message, with ``err`` on standard error; control characters are shown as escapes."""
    print(visible(message, lines=True), file=sys.stderr if err else sys.stdout, flush=True)


def print_shown(shown: RenderableType, console: Console | None = None) -> None:
    """Print to a terminal within its width, to a pipe or a file at full width."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=UNBOUNDED)
    console.print(shown, crop=False)


def shown_text(shown: RenderableType) -> str:
    """What :func:`print_shown` would print, without colours and without the last line break."""
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
    return Measurement.get(console, options.update(width=UNBOUNDED), table).minimum
