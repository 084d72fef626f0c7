"""An STS report on the console and in files."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from cxc_eccv.sts.results import HEADER, StsReport, table_rows, title, to_json, to_markdown
from cxc_eccv.writing import replaced_folder

__all__ = ["print_sts", "write_sts"]

PIPED_WIDTH = 110


def print_sts(report: StsReport, console: Console | None = None) -> None:
    """Print one table per task; correlations times 100."""
    shown = console or Console()
    if not shown.is_terminal:
        shown = Console(file=shown.file, width=PIPED_WIDTH)
    for task, rows in report.tasks.items():
        table = Table(box=box.SIMPLE_HEAD, title=f"{title(task)}, times 100", title_justify="left")
        for name in HEADER:
            table.add_column(name, justify="right" if name else "left", no_wrap=True)
        for cells in table_rows(rows):
            table.add_row(*cells)
        shown.print(table)


def write_sts(report: StsReport, output: Path | None) -> list[Path]:
    """Write ``sts.json`` and ``sts.md``, both or neither; nothing without a folder."""
    if output is None:
        return []
    texts = {"sts.json": to_json(report), "sts.md": to_markdown(report)}
    with replaced_folder(output, texts) as folder:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [output / name for name in texts]
