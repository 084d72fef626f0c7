"""The report of sentence similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from cxc_eccv.presentation import ShownResult
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.sts.correlations import Row
from cxc_eccv.tables import Table
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance

TASK_TITLES = {"stsb": "STS Benchmark", "sick": "SICK relatedness", "sts": "STS 2012-2016 together"}
HEADER = ("", "pairs", "Pearson", "interval", "Spearman", "not scored")


@dataclass(frozen=True, slots=True, eq=False)
class StsReport(ShownResult):
    """All tasks of one model."""

    tasks: Mapping[str, Sequence[Row]]
    provenance: Provenance

    def row(self, task: str, name: str) -> Row:
        """One row by name."""
        return next(row for row in self.tasks[task] if row.name == name)

    @property
    def title(self) -> str:
        """The name of the model."""
        return f"Semantic textual similarity: {self.provenance.model or 'a model'}"

    def tables(self) -> list[Table]:
        """A table per task; correlations times 100, as in the field's papers."""
        header = [(heading,) for heading in HEADER]
        data = describe_data(self.provenance.data, self.provenance.split, "")
        return [
            Table(header, list(map(_make_row, rows)), f"{name_task(task)}, times 100", data=data)
            for task, rows in self.tasks.items()
        ]

    def footnotes(self) -> list[str]:
        """What a baseline was fitted on, and a line for each raw file that differs from the catalog's."""
        fitted = self.provenance.others.get("fitted_on")
        modified = [
            f"Modified data: {name} has sha256 {file.found}, expected {file.expected}."
            for name, file in self.provenance.data.modified.items()
        ]
        return [f"Fitted on {fitted}.", *modified] if fitted else modified

    def record(self) -> dict[str, object]:
        """The rows of each task, and the provenance."""
        tasks = {task: [asdict(row) for row in rows] for task, rows in self.tasks.items()}
        return {"schema": 1, "tasks": tasks, "provenance": to_json(self.provenance)}


def name_task(task: str) -> str:
    """The heading of a task, such as ``STS 2014``."""
    return TASK_TITLES.get(task, f"STS {task.removeprefix('sts')}")


def _make_row(row: Row) -> list[str]:
    return [
        row.name.replace("_", " "),
        f"{row.pairs:,}",
        f"{100 * row.pearson:.1f}",
        "" if row.low is None or row.high is None else f"{100 * row.low:.1f} to {100 * row.high:.1f}",
        f"{100 * row.spearman:.1f}",
        f"{row.unscored:,}" if row.unscored else "",
    ]
