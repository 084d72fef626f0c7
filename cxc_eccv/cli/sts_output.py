"""An STS report on the console and in files."""

from __future__ import annotations

from pathlib import Path

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from cxc_eccv.sts.results import HEADER, StsReport, table_rows, title, to_json, to_markdown

__all__ = ["print_sts", "write_sts"]

PIPED_WIDTH = 110


def print_sts(report: StsReport, console: Console | None = None) -> None:
    """Print what the model was fitted on, where it was, and one table per task; correlations times 100."""
    shown = console or Console()
    if not shown.is_terminal:
        shown = Console(file=shown.file, width=PIPED_WIDTH)
    if "fitted_on" in report.provenance:
        shown.print(f"Fitted on {report.provenance['fitted_on']}.", markup=False, highlight=False)
    for task, rows in report.tasks.items():
        table = Table(box=box.SIMPLE_HEAD, title=f"{title(task)}, times 100", title_justify="left")
        for name in HEADER:
            table.add_column(name, justify="right" if name else "left", no_wrap=True)
        for cells in table_rows(rows):
            table.add_row(*cells)
        shown.print(table)


def write_sts(report: StsReport, output: Path | None) -> None:
    """Write ``sts.json`` and ``sts.md``; nothing without a folder."""
    if output is None:
        return
    output.mkdir(parents=True, exist_ok=True)
    for name, text in (("sts.json", to_json(report)), ("sts.md", to_markdown(report))):
        (output / name).write_text(text, encoding="utf-8", newline="\n")
        typer.echo(f"wrote {output / name}")
