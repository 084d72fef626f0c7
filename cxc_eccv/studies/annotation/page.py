"""The page of an annotation report: sheets, workers, agreement, answers by model, and changes of scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from cxc_eccv.report.charts import segments
from cxc_eccv.report.pages import page_style, template, thumbnails
from cxc_eccv.studies.annotation.labelling.changes import LabelChange
from cxc_eccv.studies.annotation.reported import OTHERS, AnnotationReport, show_seconds
from cxc_eccv.studies.asking.quality import ACCEPTED, BY_HAND, REJECTED
from cxc_eccv.tables import tables_to_markdown
from cxc_eccv.terminal import visible
from cxc_eccv.wording import metric_name, show_value, task_name
from cxc_eccv.writing import replaced_folder

STUDY = "cxc_eccv.studies.annotation"

ANNOTATED_FILES = JSON, MARKDOWN, HTML = "annotation_report.json", "annotation_report.md", "annotation_report.html"

KINDS = {ACCEPTED: "near", BY_HAND: "partly", REJECTED: "far"}
"""Verdict to the class of its colour."""

SHADES = 8


def render_annotated(report: AnnotationReport, images: Path | None = None) -> str:
    """The page: one self-contained HTML file without a script; what people typed is escaped."""
    names = {name for answer in report.to_check for name in (answer.file_name, answer.other) if name}
    verdicts = [sheet.verdict for sheet in report.sheets]
    return template("annotated.html.jinja", STUDY, keep_trailing_newline=True).render(
        report=report,
        css=page_style("explained", "annotated", package=STUDY),
        verdicts=segments([verdicts.count(verdict) for verdict in KINDS], list(KINDS.values()), list(KINDS)),
        kinds=KINDS,
        images={} if images is None else thumbnails(images, names),
        checked=list(_sheets_to_check(report)),
        ranks=[
            (
                line.model,
                OTHERS.get(line.model, f"rank {line.rank}" if line.rank else "below" if line.rank == 0 else "all"),
                line,
            )
            for line in report.by_rank
        ],
        shades=_shade(report),
        bar=lambda counts: segments(counts, _shade(report), report.classes),
        panels=list(_panels(report)),
        visible=visible,
        seconds=show_seconds,
        others=OTHERS,
        facts=_list_facts(report),
    )


def _sheets_to_check(report: AnnotationReport) -> Iterator[dict[str, Any]]:
    """Yield the sheets to be checked by hand, with their answers."""
    quality = {(sheet.sheet, sheet.worker): sheet for sheet in report.sheets}
    for (sheet, worker), answers in groupby(report.to_check, key=lambda answer: (answer.sheet, answer.worker)):
        command = report.command_for(sheet, worker)
        yield {"quality": quality[sheet, worker], "told": list(answers), "command": command}


def _shade(report: AnnotationReport) -> list[str]:
    """CSS classes of the colours of the answers, dark for yes."""
    most = max(1, len(report.classes) - 1)
    shades = [f"bin{round(SHADES * place / most)}" for place in range(len(report.classes))]
    return shades if report.scheme.answers else shades[::-1]


def _panels(report: AnnotationReport) -> Iterator[dict[str, Any]]:
    """Yield the changes of each task and direction, with the half-width of their axis."""
    changes = () if isinstance(report.changes, str) else report.changes.changes
    for task, direction in dict.fromkeys((row.task, row.direction) for row in changes):
        rows = [row for row in changes if (row.task, row.direction) == (task, direction)]
        reach = max(abs(bound) for row in rows for bound in (row.low, row.high, row.difference)) or 1.0
        yield {
            "task": task_name(task),
            "direction": direction,
            "reach": show_value(rows[0].metric, reach),
            "metrics": [
                (name, [_line(row, reach) for row in of_metric])
                for name, of_metric in groupby(rows, key=lambda row: metric_name(row.metric))
            ],
        }


def _line(row: LabelChange, reach: float) -> dict[str, Any]:
    """A change, with the position of its difference on the axis in percent of the width."""
    numbers = (row.low, row.difference, row.high)
    low, difference, high = (show_value(row.metric, number, sign=True) for number in numbers)
    return {
        "change": row,
        "before": show_value(row.metric, row.before),
        "after": show_value(row.metric, row.after),
        "difference": difference,
        "interval": f"{low} to {high}",
        "places": [round(50 + 50 * number / reach, 2) for number in numbers],
    }


def _list_facts(report: AnnotationReport) -> list[tuple[str, str]]:
    provenance = report.provenance
    data = provenance.get("data") or {}
    facts = {
        "Command": provenance.get("command"),
        "Rule for labels": report.rule.replace("_", " "),
        "Scheme": report.scheme.citation,
        "Data edition": data.get("edition"),
        "Data fingerprint": data.get("fingerprint"),
        "Package version": (provenance.get("package") or {}).get("version"),
    }
    return [(title, str(value)) for title, value in facts.items() if value]


def write_annotated(folder: Path, report: AnnotationReport, images: Path | None = None) -> list[Path]:
    """Write the numbers, the tables and the page atomically; keep other files of the folder."""
    texts = {
        JSON: json.dumps(report.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n",
        MARKDOWN: tables_to_markdown(report.tables(None)),
        HTML: render_annotated(report, images),
    }
    with replaced_folder(folder, ANNOTATED_FILES) as new:
        for name, text in texts.items():
            (new / name).write_text(text, encoding="utf-8", newline="\n")
    return [folder / name for name in ANNOTATED_FILES]
