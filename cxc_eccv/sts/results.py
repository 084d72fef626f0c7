"""Results of the STS evaluation, as tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cxc_eccv.shown import markdown_text, upper_first
from cxc_eccv.sources.catalog import describe_data

TITLES = {"stsb": "STS Benchmark", "sick": "SICK relatedness", "sts": "STS 2012-2016 together"}
HEADER = ("", "pairs", "Pearson", "interval", "Spearman", "not scored")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a task's table."""

    name: str  # subtask or aggregate: mean, weighted_mean, all, cosine, classifier
    pearson: float  # in [-1, 1]
    spearman: float
    pairs: int  # pairs with a human score
    low: float | None = None  # interval of ``pearson``; None for means of correlations
    high: float | None = None
    unscored: int = 0  # pairs without a human score, which are left out


@dataclass(frozen=True, slots=True, eq=False)
class StsReport:
    """All tasks of one model."""

    tasks: Mapping[str, Sequence[Row]]
    provenance: Mapping[str, object]

    def row(self, task: str, name: str) -> Row:
        """One row by name."""
        return next(row for row in self.tasks[task] if row.name == name)


def title(task: str) -> str:
    """The heading of a task, such as ``STS 2014``."""
    return TITLES.get(task, f"STS {task.removeprefix('sts')}")


def table_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Cells of a table, correlations times 100 as in the field's papers."""
    return [
        (
            row.name.replace("_", " "),
            f"{row.pairs:,}",
            f"{100 * row.pearson:.1f}",
            "" if row.low is None or row.high is None else f"{100 * row.low:.1f} to {100 * row.high:.1f}",
            f"{100 * row.spearman:.1f}",
            f"{row.unscored:,}" if row.unscored else "",
        )
        for row in rows
    ]


def modified_lines(report: StsReport) -> list[str]:
    """A line for each raw file that differs from the catalog's."""
    data: Any = report.provenance.get("data") or {}
    return [
        f"Modified data: {name} has sha256 {hashes['found']}, expected {hashes['expected']}."
        for name, hashes in (data.get("modified") or {}).items()
    ]


def to_markdown(report: StsReport) -> str:
    """One table per task."""
    lines = [f"# Semantic textual similarity: {markdown_text(report.provenance.get('model', 'a model'))}"]
    lines += ["", f"{upper_first(describe_data(report.provenance, ''))}."]
    lines += [line for text in modified_lines(report) for line in ("", markdown_text(text))]
    if "fitted_on" in report.provenance:
        lines += ["", f"Fitted on {markdown_text(report.provenance['fitted_on'])}."]
    for task, rows in report.tasks.items():
        lines += ["", f"## {title(task)}", "", _line(HEADER), _line(["---", *["---:"] * (len(HEADER) - 1)])]
        lines += [_line(cells) for cells in table_rows(rows)]
    return "\n".join(lines) + "\n"


def to_json(report: StsReport) -> str:
    """``{"schema": 1, "tasks": {task: [row, ...]}, "provenance": {...}}``."""
    tasks = {task: [asdict(row) for row in rows] for task, rows in report.tasks.items()}
    return json.dumps({"schema": 1, "tasks": tasks, "provenance": dict(report.provenance)}, indent=2) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
