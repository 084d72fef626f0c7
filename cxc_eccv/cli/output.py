"""Writing what a command was asked to keep."""

from __future__ import annotations

from pathlib import Path

import typer

from cxc_eccv.types import Report

__all__ = ["write_report"]


def write_report(report: Report, output: Path | None) -> None:
    """Write ``report.json`` into the folder, as a whole or not at all; without a folder do nothing."""
    from cxc_eccv.evaluation import report_to_json

    if output is None:
        return
    output.mkdir(parents=True, exist_ok=True)
    target, part = output / "report.json", output / "report.json.part"
    part.write_text(report_to_json(report), encoding="utf-8")
    part.replace(target)
    typer.echo(f"wrote {target}")
