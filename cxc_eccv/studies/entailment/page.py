"""The folder of a classifier's report: report.json, the probabilities, and a page with the reliability diagram."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import ArrayLike

from cxc_eccv.parquet import write_parquet
from cxc_eccv.report.pages import page_style, template
from cxc_eccv.studies.entailment.labelled import LabelledPairs
from cxc_eccv.studies.entailment.quality import ClassifierReport
from cxc_eccv.writing import replaced_folder

__all__ = ["CLASSIFIER_FILES", "Diagram", "diagram", "render_classifier", "write_classifier_folder"]

JSON, PROBABILITIES, HTML = "report.json", "probabilities.parquet", "report.html"
CLASSIFIER_FILES = (JSON, PROBABILITIES, HTML)

WIDTH, HEIGHT = 360, 360
LEFT, TOP, RIGHT, BOTTOM = 36, 28, 344, 316
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
TALLEST = 70.0
"""Of the bars."""


@dataclass(frozen=True, slots=True)
class Diagram:
    """A reliability diagram in the units of its view box, and in words.

    Attributes:
        description: in words.
        points: of the line through the rings, as ``x,y x,y ...``.
        rings: x and y of each bin, and both ends of the interval of its share.
        bars: left, width and height of the numbers of pairs.
        x_ticks, y_ticks: place and label.
    """

    description: str
    points: str
    rings: tuple[tuple[float, float, float, float], ...]
    bars: tuple[tuple[float, float, float], ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    size: tuple[int, int] = (WIDTH, HEIGHT)
    box: tuple[int, int, int, int] = (LEFT, TOP, RIGHT, BOTTOM)


def diagram(report: ClassifierReport) -> Diagram:
    """Lay out the reliability of a report, both axes from 0 to 100%."""
    bins = report.reliability.bins
    rings = tuple((_x(row.probability), _y(row.share), _y(row.share_low), _y(row.share_high)) for row in bins)
    most = max(row.pairs for row in bins)
    bars = tuple(
        (_x(row.low) + 1, round(_x(row.high) - _x(row.low) - 2, 1), round(TALLEST * row.pairs / most, 1))
        for row in bins
    )
    told = "; ".join(
        f"{row.pairs:,} pairs at {100 * row.probability:.0f}%, {100 * row.share:.0f}% entailed" for row in bins
    )
    ticks = [f"{100 * at:g}" for at in TICKS]
    return Diagram(
        f"Mean probability and share of entailed pairs. {told}.",
        " ".join(f"{x},{y}" for x, y, _, _ in rings),
        rings,
        bars,
        tuple(zip(map(_x, TICKS), ticks, strict=True)),
        tuple(zip(map(_y, TICKS), ticks, strict=True)),
    )


def _x(probability: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * probability, 1)


def _y(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 1)


def _sources(record: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The parts of a record of training data, those of the run that it went on from first."""
    return () if record is None else (*_sources(record.get("before")), *record.get("sources", ()))


def render_classifier(report: ClassifierReport) -> str:
    """The page's text; everything out of data is escaped."""
    provenance = report.provenance
    facts = {
        "Command": provenance.get("command"),
        "Threshold": f"{report.threshold!r}, {report.threshold_from}",
        "Classifier's fingerprint": provenance.get("fingerprint"),
        "Trained on": ", ".join(_sources(provenance.get("training_data"))),
        "Left out": "; ".join(f"{rule}: {number:,}" for rule, number in provenance["left_out"].items()),
        "Data edition": provenance["data"]["edition"],
        "Package version": provenance["package"]["version"],
    }
    return template("classifier.html.jinja", "cxc_eccv.studies.entailment", keep_trailing_newline=True).render(
        report=report,
        css=page_style(),
        tables=report.tables(),
        chart=diagram(report),
        facts=[(title, text) for title, text in facts.items() if text],
    )


def write_classifier_folder(
    folder: Path,
    report: ClassifierReport,
    labelled: LabelledPairs,
    probabilities: ArrayLike,
    command: str | None = None,
) -> list[Path]:
    """Write ``report.json``, ``probabilities.parquet`` (the pairs with what was said of them) and ``report.html``.

    Equal inputs give equal bytes; other files of the folder are kept.
    """
    if command is not None:
        report = replace(report, provenance={**report.provenance, "command": command})
    values = pa.array(probabilities, pa.float64())
    with replaced_folder(folder, CLASSIFIER_FILES) as new:
        (new / JSON).write_text(report.to_json(), encoding="utf-8", newline="\n")
        write_parquet(labelled.table.append_column("probability", values), new / PROBABILITIES)
        (new / HTML).write_text(render_classifier(report), encoding="utf-8", newline="\n")
    return [folder / name for name in CLASSIFIER_FILES]
