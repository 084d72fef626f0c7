"""The page of an annotation: sheets and workers, where people agree, what they said of models, what it changed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from cxc_eccv.comparison.labels import metric_name, show_value, task_name
from cxc_eccv.report.charts import segments
from cxc_eccv.report.pages import page_style, template
from cxc_eccv.shown import visible
from cxc_eccv.studies.annotation.labelling.changes import LabelChange
from cxc_eccv.studies.annotation.reported import OTHERS, AnnotationReport, Told, show_seconds
from cxc_eccv.studies.asking.quality.sheets import ACCEPTED, BY_HAND, REJECTED, SheetQuality
from cxc_eccv.tables import tables_to_markdown
from cxc_eccv.writing import replaced_folder

__all__ = ["ANNOTATED_FILES", "render_annotated", "write_annotated"]

STUDY = "cxc_eccv.studies.annotation"

ANNOTATED_FILES = JSON, MARKDOWN, HTML = "annotation_report.json", "annotation_report.md", "annotation_report.html"

KINDS = {ACCEPTED: "near", BY_HAND: "partly", REJECTED: "far"}
"""Verdict to the class of its colour."""

SHADES = 8
"""Of answers: from the one that says yes to the one that says no."""


@dataclass(frozen=True, slots=True)
class CheckedSheet:
    """A sheet that somebody has to look at."""

    quality: SheetQuality
    told: tuple[Told, ...]
    command: str


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A change, and where its difference stands on the axis of its table, in percent of the width."""

    change: LabelChange
    metric: str
    before: str
    after: str
    difference: str
    interval: str
    places: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class ChangePanel:
    """All changes of a task and direction, and how far the axis reaches to both sides."""

    task: str
    direction: str
    reach: str
    metrics: tuple[tuple[str, tuple[ChangeLine, ...]], ...]


def render_annotated(report: AnnotationReport) -> str:
    """The page's text: one self-contained HTML file without a script; what people typed is escaped."""
    verdicts = [own.verdict for own in report.sheets]
    return template("annotated.html.jinja", STUDY, keep_trailing_newline=True).render(
        report=report,
        css=page_style("explained", "annotated", package=STUDY),
        verdicts=segments([verdicts.count(verdict) for verdict in KINDS], list(KINDS.values()), list(KINDS)),
        kinds=KINDS,
        checked=list(_sheets_to_check(report)),
        ranks=[
            (
                own.model,
                OTHERS.get(own.model, f"rank {own.rank}" if own.rank else "below" if own.rank == 0 else "all"),
                own,
            )
            for own in report.by_rank
        ],
        shades=_shade(report),
        bar=lambda counts: segments(counts, _shade(report), report.classes),
        panels=list(_panels(report)),
        visible=visible,
        seconds=show_seconds,
        others=OTHERS,
        facts=_list_facts(report),
    )


def _sheets_to_check(report: AnnotationReport) -> Iterable[CheckedSheet]:
    quality = {(own.sheet, own.worker): own for own in report.sheets}
    for (sheet, worker), told in groupby(report.to_check, key=lambda own: (own.sheet, own.worker)):
        yield CheckedSheet(quality[sheet, worker], tuple(told), report.command_for(sheet, worker))


def _shade(report: AnnotationReport) -> list[str]:
    """Classes of colours of the answers, dark for yes."""
    most = max(1, len(report.classes) - 1)
    shades = [f"bin{round(SHADES * place / most)}" for place in range(len(report.classes))]
    return shades if report.scheme.answers else shades[::-1]


def _panels(report: AnnotationReport) -> Iterable[ChangePanel]:
    changes = () if isinstance(report.changes, str) else report.changes.changes
    for task, direction in dict.fromkeys((row.task, row.direction) for row in changes):
        own = [row for row in changes if (row.task, row.direction) == (task, direction)]
        reach = max(abs(bound) for row in own for bound in (row.low, row.high, row.difference)) or 1.0
        lines = [_line(row, reach) for row in own]
        metrics = tuple((name, tuple(of_name)) for name, of_name in groupby(lines, key=lambda line: line.metric))
        yield ChangePanel(task_name(task), direction, show_value(own[0].metric, reach), metrics)


def _line(row: LabelChange, reach: float) -> ChangeLine:
    low, difference, high = (show_value(row.metric, one, sign=True) for one in (row.low, row.difference, row.high))
    start, middle, end = (round(50 + 50 * one / reach, 2) for one in (row.low, row.difference, row.high))
    before, after = (show_value(row.metric, one) for one in (row.before, row.after))
    return ChangeLine(row, metric_name(row.metric), before, after, difference, f"{low} to {high}", (start, middle, end))


def _list_facts(report: AnnotationReport) -> list[tuple[str, str]]:
    provenance = report.provenance
    data = provenance.get("data") or {}
    facts = {
        "Command": provenance.get("command"),
        "Rule of settling": report.rule.replace("_", " "),
        "Scheme": report.scheme.citation,
        "Data edition": data.get("edition"),
        "Data fingerprint": data.get("fingerprint"),
        "Package version": (provenance.get("package") or {}).get("version"),
    }
    return [(title, str(value)) for title, value in facts.items() if value]


def write_annotated(folder: Path, report: AnnotationReport) -> list[Path]:
    """Write the numbers, the tables and the page, all or nothing; other files of the folder are kept."""
    texts = {
        JSON: json.dumps(report.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n",
        MARKDOWN: tables_to_markdown(report.tables(None)),
        HTML: render_annotated(report),
    }
    with replaced_folder(folder, ANNOTATED_FILES) as new:
        for name, text in texts.items():
            (new / name).write_text(text, encoding="utf-8", newline="\n")
    return [folder / name for name in ANNOTATED_FILES]
