"""The report of sentence similarity: its tables, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.sts.correlations import Row
from cxc_eccv.tables import Table, tables_to_markdown
from cxc_eccv.terminal import markdown_text
from cxc_eccv.types import json_records
from cxc_eccv.types.provenance import Provenance

TITLES = {"stsb": "STS Benchmark", "sick": "SICK relatedness", "sts": "STS 2012-2016 together"}
HEADER = ("", "pairs", "Pearson", "interval", "Spearman", "not scored")


@dataclass(frozen=True, slots=True, eq=False)
class StsReport:
    """All tasks of one model."""

    tasks: Mapping[str, Sequence[Row]]
    provenance: Provenance

    def row(self, task: str, name: str) -> Row:
        """One row by name."""
        return next(row for row in self.tasks[task] if row.name == name)


def title(task: str) -> str:
    """The heading of a task, such as ``STS 2014``."""
    return TITLES.get(task, f"STS {task.removeprefix('sts')}")


def list_tables(report: StsReport) -> list[Table]:
    """A table per task; correlations times 100, as in the field's papers."""
    header = [(heading,) for heading in HEADER]
    data = describe_data(report.provenance.data, report.provenance.split, "")
    return [
        Table(header, list(map(_table_row, rows)), f"{title(task)}, times 100", data=data)
        for task, rows in report.tasks.items()
    ]


def _table_row(row: Row) -> list[str]:
    return [
        row.name.replace("_", " "),
        f"{row.pairs:,}",
        f"{100 * row.pearson:.1f}",
        "" if row.low is None or row.high is None else f"{100 * row.low:.1f} to {100 * row.high:.1f}",
        f"{100 * row.spearman:.1f}",
        f"{row.unscored:,}" if row.unscored else "",
    ]


def list_notes(report: StsReport) -> list[str]:
    """What a baseline was fitted on, and a line for each raw file that differs from the catalog's."""
    fitted = report.provenance.others.get("fitted_on")
    return ([f"Fitted on {fitted}."] if fitted else []) + [
        f"Modified data: {name} has sha256 {file.found}, expected {file.expected}."
        for name, file in report.provenance.data.modified.items()
    ]


def to_markdown(report: StsReport) -> str:
    """The tables, and what they were computed from."""
    head = f"# Semantic textual similarity: {markdown_text(report.provenance.model or 'a model')}"
    return "\n\n".join([head, *map(markdown_text, list_notes(report)), tables_to_markdown(list_tables(report))])


def to_json(report: StsReport) -> str:
    """``{"schema": 1, "tasks": {task: [row, ...]}, "provenance": {...}}``."""
    tasks = {task: [asdict(row) for row in rows] for task, rows in report.tasks.items()}
    return (
        json.dumps({"schema": 1, "tasks": tasks, "provenance": json_records.to_json(report.provenance)}, indent=2)
        + "\n"
    )
