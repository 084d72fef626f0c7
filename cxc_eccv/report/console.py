"""A report on a terminal or in a notebook: the data, the main numbers, a table per task, and what was not scored."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cxc_eccv.report.page_content import Page
from cxc_eccv.report.score_tables import NOTHING, caution_lines, explain_rows, list_tables, skipped_lines
from cxc_eccv.tables import tables_to_console
from cxc_eccv.terminal import print_shown, shown_html, shown_text, visible
from cxc_eccv.types import Report


def print_report(report: Report, console: Console | None = None) -> None:
    """Print what :func:`report_text` returns, with colours where the terminal has them."""
    print_shown(render(Page(report)), console)


def report_text(report: Report) -> str:
    """The report for a terminal, without colours."""
    return shown_text(render(Page(report)))


def report_html(report: Report) -> str:
    """The report for a notebook."""
    return shown_html(render(Page(report)))


def render(page: Page) -> RenderableType:
    """The page as a rich renderable."""
    tables = list_tables(page)
    return Group(
        *([Text(page.first_line, style="bold"), Text()] if page.first_line else []),
        tables_to_console(tables) if tables else Text(NOTHING, style="bold"),
        *(Text(line, style="dim") for line in explain_rows(page)),
        *(Text(visible(line), style="bold red") for line in caution_lines(page)),
        *([Text(visible(f"Not scored. {'; '.join(lines)}."), style="dim")] if (lines := skipped_lines(page)) else []),
    )
