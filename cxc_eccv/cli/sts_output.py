"""An STS report on the console and in files."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from cxc_eccv.shown import visible
from cxc_eccv.sts.results import HEADER, StsReport, modified_lines, table_rows, title, to_json, to_markdown
from cxc_eccv.terminal import Sheet, print_shown
from cxc_eccv.writing import replaced_folder

__all__ = ["print_sts", "write_sts"]

STACKED = (((0,), (1,), (2, 3), (4,), (5,)), ((0,), (1, 5), (2, 3), (4,)))
"""The interval below its correlation; then the rows without a score below the pairs."""


def print_sts(report: StsReport, console: Console | None = None) -> None:
    """Print what the model was fitted on, where it was, and one table per task; correlations times 100."""
    if "fitted_on" in report.provenance:
        print_shown(Text(visible(f"Fitted on {report.provenance['fitted_on']}.")), console)
    for task, rows in report.tasks.items():
        print_shown(Sheet(HEADER, table_rows(rows), stacked=STACKED, title=f"{title(task)}, times 100"), console)
    for line in modified_lines(report):
        print_shown(Text(visible(line), style="bold red"), console)


def write_sts(report: StsReport, output: Path | None) -> list[Path]:
    """Write ``sts.json`` and ``sts.md``, both or neither; nothing without a folder."""
    if output is None:
        return []
    texts = {"sts.json": to_json(report), "sts.md": to_markdown(report)}
    with replaced_folder(output, texts) as folder:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [output / name for name in texts]
