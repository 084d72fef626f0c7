"""Reports as the tables of a paper: a row per model, columns in the field's order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from cxc_eccv.comparison import ScoredReport
from cxc_eccv.comparison.labels import metric_name, task_name
from cxc_eccv.comparison.pairing import check_comparable
from cxc_eccv.comparison.views import rows_to_csv
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.registry import metric_labelled, tasks
from cxc_eccv.report.console import number_cell
from cxc_eccv.report.wording import Shown, fold_deviations
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.types import Report, Result

__all__ = ["paper_csv", "paper_tables"]

RECALLS = ("recall_at_1", "recall_at_5", "recall_at_10")
CROSS = ("i2t", "t2i")

LAYOUT = {
    "Image-text retrieval": (
        ("coco_1k", CROSS, RECALLS),
        ("coco_1k", ("",), ("rsum",)),
        ("coco_5k", CROSS, RECALLS),
        ("coco_5k", ("",), ("rsum",)),
        ("cxc", CROSS, RECALLS),
        ("eccv_caption", CROSS, ("map_at_r", "r_precision", "recall_at_1")),
        ("plausible_match", CROSS, ("pmrp", "pmrp_at_50")),
        ("flickr30k", CROSS, RECALLS),
        ("flickr30k", ("",), ("rsum",)),
        ("flickr8k", CROSS, RECALLS),
        ("flickr8k", ("",), ("rsum",)),
    ),
    "Retrieval within one modality, and correlation with ratings": (
        ("co_captions", ("t2t",), RECALLS),
        ("cxc", ("t2t", "i2i"), RECALLS),
        ("cxc", ("sts", "sis", "sits"), ("bootstrap_spearman",)),
    ),
}
"""Title of a table to its columns: task, directions, metrics."""


def paper_tables(
    reports: Mapping[str, Report], tasks: Sequence[str] | None = None, *, intervals: bool = False
) -> list[Table]:
    """The tables of a paper, in bold the best model of each column.

    A column is there if one of the reports has its value; where another lacks it stands a dash.

    Args:
        reports: name of the model to its report, in the order of the rows.
        tasks: those to show; others than the layout's have all their metrics. None for all of the layout.
        intervals: show them beside the values.

    Raises:
        InvalidOption: reports of different data, splits or protocols, or nothing to show.
        UnknownName: a task of which no report has a result.

    Example:
        >>> facts = {"data": {"fingerprint": "f"}, "split": "test"}
        >>> def report(value):
        ...     return Report((Result("coco_5k", "i2t", "recall_at_1", value, 5000),), {}, facts)
        >>> (table,) = paper_tables({"old": report(0.41), "new": report(0.45)})
        >>> table.headings, [[str(cell) for cell in row] for row in table.rows]
        (['', 'COCO 5K i2t R@1'], [['old', '41.0'], ['new', '45.0']])
    """
    models = {name: {row.key: row for row in fold_deviations(report.results)} for name, report in reports.items()}
    found = _lay_out(reports, tasks)
    said = _describe(reports, intervals=intervals)
    return [_table(title, columns, models, said, intervals=intervals) for title, columns in found.items()]


def paper_csv(reports: Mapping[str, Report], tasks: Sequence[str] | None = None, *, intervals: bool = False) -> str:
    """The same rows and columns for a program: values whole and in the units of report.json, under its keys.

    Bounds of intervals have columns ``KEY/low`` and ``KEY/high``; what a report lacks is empty.
    """
    columns = [column.key for column in chain.from_iterable(_lay_out(reports, tasks).values())]
    wanted = [name for key in columns for name in (key, f"{key}_std")]
    rows: list[dict[str, object]] = []
    for name, report in reports.items():
        own = {result.key: result for result in report.results}
        row: dict[str, object] = {"model": name}
        ...
    return rows_to_csv(rows)
