"""Reports of several models as tables for a paper."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from cxc_eccv.comparison.pairing import ScoredReport, check_comparable, collect_doubts
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.presentation import ShownResult
from cxc_eccv.registry import metric_labelled
from cxc_eccv.report import Report
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.score_tables import interval_lines, number_cell
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.terminal import visible
from cxc_eccv.types import CROSS_MODAL
from cxc_eccv.types.result import SPREAD
from cxc_eccv.wording import (
    Shown,
    fold_deviations,
    heading_of,
    if_ties_help_text,
    judge_caution,
    task_name,
    unit_of,
)

RECALLS = ("recall_at_1", "recall_at_5", "recall_at_10")

LAYOUT = {
    "Image-text retrieval under the links of COCO": (
        ("coco_1k", CROSS_MODAL, RECALLS),
        ("coco_1k", ("",), ("rsum",)),
        ("coco_5k", CROSS_MODAL, RECALLS),
        ("coco_5k", ("",), ("rsum",)),
    ),
    "Image-text retrieval under further labels": (
        ("cxc", CROSS_MODAL, RECALLS),
        ("eccv_caption", CROSS_MODAL, ("map_at_r", "r_precision", "recall_at_1")),
        ("plausible_match", CROSS_MODAL, ("pmrp", "pmrp_at_50")),
    ),
    "Image-text retrieval on Flickr": (
        ("flickr30k", CROSS_MODAL, RECALLS),
        ("flickr30k", ("",), ("rsum",)),
        ("flickr8k", CROSS_MODAL, RECALLS),
        ("flickr8k", ("",), ("rsum",)),
    ),
    "Retrieval within one modality, and correlation with ratings": (
        ("co_captions", ("t2t",), RECALLS),
        ("cxc", ("t2t", "i2i"), RECALLS),
        ("cxc", ("sts", "sis", "sits"), ("bootstrap_spearman",)),
    ),
}
"""Title of a table to its columns (task, directions, metrics); every table fits a page."""

LATEX_LABELS = dict(zip(LAYOUT, ("links", "further-labels", "flickr", "one-modality"), strict=True))
"""Title of a table to its label in LaTeX."""


@dataclass(frozen=True, slots=True)
class PaperTables(ShownResult):
    """Tables for a paper, with the best value of each column in bold.

    A number that any report has gets a column. Of ``tasks`` without a column in the layout, all metrics are shown.
    Reports of different data, splits or protocols are refused.
    """

    reports: Mapping[str, Report]
    tasks: Sequence[str] | None = None
    intervals: bool = False

    def tables(self) -> list[Table]:
        """A row per report, and a table for each set of labels."""
        models = _check_alike(self.reports, intervals=self.intervals)
        return [self._make_table(models, title, keys) for title, keys in _lay_out(models, self.tasks).items()]

    def _make_table(self, models: Models, title: str, keys: Sequence[str]) -> Table:
        first = next(iter(self.reports.values()))
        rows = list(_rows(models, keys, intervals=self.intervals))
        results = _select(models, keys)
        caution = judge_caution(results, first.provenance.split)
        label = LATEX_LABELS.get(title, "")
        if first.labels:
            title = f"{title.replace(' under ', ' on the queries of ')}, labels {first.labels}"
        return Table(
            [("", "", ""), *map(_shorten_heading, keys)],
            rows,
            title,
            _describe(first, keys, intervals=self.intervals),
            bold="The best values are in bold." if _has_bold(rows) else "",
            notes=interval_lines(results) if self.intervals else [],
            cautions=[*self._name_modified(), *([caution] if caution else [])],
            data=Page(first).data,
            doubts=collect_doubts(self.reports),
            label=label,
        )

    def _name_modified(self) -> list[str]:
        """The modified data of each report."""
        modified = {name: [file for file, _, _ in Page(report).modified] for name, report in self.reports.items()}
        return [f"modified data of {name}: {', '.join(files)}" for name, files in modified.items() if files]

    def records(self) -> list[dict[str, object]]:
        """The rows for a program: values in the units of report.json under its keys, intervals under ``KEY/low``."""
        models = _check_alike(self.reports, intervals=self.intervals)
        keys = [key for columns in _lay_out(models, self.tasks).values() for key in columns]
        rows: list[dict[str, object]] = []
        for name, results in models.items():
            row: dict[str, object] = {"model": visible(name), "data": Page(self.reports[name]).data}
            for key in keys:
                result = results.get(key)
                row[key] = result and result.value
                if any(if_ties_help_text(model[key]) for model in models.values() if key in model):
                    row[f"{key}/if_ties_help"] = result and result.if_ties_help
                if any(model[key].deviation is not None for model in models.values() if key in model):
                    row[f"{key}{SPREAD}"] = result and result.deviation
                if self.intervals:
                    row |= {f"{key}/low": result and result.low, f"{key}/high": result and result.high}
                    row[f"{key}/interval_method"] = result and result.interval_method
            rows.append(row)
        return rows


def _shorten_heading(key: str) -> tuple[str, ...]:
    """The heading of a column; papers shorten R-Precision to R-P, which fits it."""
    return tuple("R-P" if part == "R-Precision" else part for part in heading_of(key))


def _select(models: Models, keys: Sequence[str]) -> list[Shown]:
    return [results[key] for results in models.values() for key in keys if key in results]


Models = Mapping[str, Mapping[str, Shown]]
"""Name of a model to its results by key."""


def _check_alike(reports: Mapping[str, Report], *, intervals: bool) -> Models:
    """The results of all reports; refuse reports of different data, splits or protocols."""
    first, *others = (ScoredReport(name, report, {}) for name, report in reports.items())
    for other in others:
        check_comparable(first, other)
    kinds = {str([report.provenance.intervals, report.provenance.confidence]) for report in reports.values()}
    if intervals and len(kinds) > 1:
        raise InvalidOption(
            f"the reports have different intervals, {' and '.join(sorted(kinds))}; leave out --intervals"
        )
    return {name: {row.key: row for row in fold_deviations(report.results)} for name, report in reports.items()}


def _lay_out(models: Models, tasks: Sequence[str] | None) -> dict[str, list[str]]:
    """Title of each table to the keys of its columns."""
    known = {key: result.task for results in models.values() for key, result in results.items()}
    present = dict.fromkeys(known.values())
    titles = {task_name(name).casefold(): name for name in present}
    tasks = None if tasks is None else [titles.get(name.casefold(), name) for name in tasks]
    for task in tasks or ():
        if task not in present:
            raise UnknownName("task of these reports", task, present)
    keys: dict[str, list[str]] = {}
    for title, groups in LAYOUT.items():
        laid_out = (
            "/".join(filter(None, place)) for group in groups for place in itertools.product((group[0],), *group[1:])
        )
        keys[title] = [key for key in laid_out if key in known and (tasks is None or known[key] in tasks)]
    shown = {known[key] for columns in keys.values() for key in columns}
    rest = [task for task in tasks or present if task not in shown] if tasks or not shown else []
    keys |= {task_name(task): [key for key in known if known[key] == task] for task in rest}
    return {title: columns for title, columns in keys.items() if columns}


def _rows(models: Models, keys: Sequence[str], *, intervals: bool) -> Iterator[list[str | Cell]]:
    best = {key: _best_text([results[key] for results in models.values() if key in results]) for key in keys}
    for name, results in models.items():
        row: list[str | Cell] = [name]
        for key in keys:
            cell = number_cell(results[key], interval=intervals) if key in results else Cell(MISSING)
            row.append(replace(cell, strong=cell.text == best[key]))
        yield row


def _best_text(results: Sequence[Shown]) -> str | None:
    """The best value as it is shown; values that look alike are equally good."""
    if len(results) < 2:
        return None
    with suppress(UnknownName):
        better = max if metric_labelled(results[0].metric)[0].higher_is_better else min
        return number_cell(better(results, key=lambda result: result.value)).text
    return None


def _has_bold(rows: Iterable[Sequence[str | Cell]]) -> bool:
    return any(isinstance(cell, Cell) and cell.strong for row in rows for cell in row)


def _describe(report: Report, keys: Sequence[str], *, intervals: bool) -> str:
    units = {unit_of(key.rpartition("/")[2]) for key in keys}
    unit = "percent" + " (correlations as they are, ± the deviation of their samples)" * ("correlation" in units)
    confidence = report.provenance.confidence
    interval = f" with {100 * confidence:g}% intervals" if intervals and confidence else ""
    return f"{unit}{interval}"
