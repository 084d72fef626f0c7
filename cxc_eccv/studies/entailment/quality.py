"""The report on a classifier of entailment: its measures on labelled pairs, as tables and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.make_report import make_provenance
from cxc_eccv.parquet import write_parquet
from cxc_eccv.presentation import ShownResult
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics.agreement import cohen_kappa
from cxc_eccv.studies.entailment.labelled import LabelledPairs, SeenPairs
from cxc_eccv.studies.entailment.measures import (
    Rate,
    Reliability,
    ReliabilityBin,
    area_under_curve,
    check_threshold,
    choose_threshold,
    measure_classifier,
    measure_reliability,
)
from cxc_eccv.studies.trainers.training_record import TrainingRecord, warn_of_training_data
from cxc_eccv.tables import MISSING, Cell, Table, interval_cell
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.writing import recorded_folder

KIND = "entailment classifier 1"

CONFIDENCE = 0.95

PRECISIONS = (0.8, 0.85, 0.9, 0.95)

RATE_TITLES = {"accuracy": "Accuracy", "precision": "Precision", "recall": "Recall", "f_half": "F0.5"}

OWN_THRESHOLD = "the classifier's own"


@dataclass(frozen=True, slots=True)
class PrecisionRow:
    """The threshold and recall that a wanted precision costs; None if no threshold reaches it."""

    wanted: float
    threshold: float | None = None
    found: int | None = None
    precision: float | None = None
    recall: float | None = None


@dataclass(frozen=True, slots=True)
class SourceRow:
    """How good the probabilities of the pairs of one source are; None where all labels or predictions are equal."""

    source: str
    pairs: int
    positive: int
    calibration_error: float | None
    auc: float | None
    kappa: float | None


@dataclass(frozen=True, slots=True)
class ClassifierReport(ShownResult):
    """The measures of a classifier on labelled pairs; ``cautions`` warn of evaluation data in its training data."""

    model: str
    pairs: str
    n_pairs: int
    n_positive: int
    n_images: int
    threshold: float
    threshold_from: str
    n_predicted: int
    rates: tuple[Rate, ...]
    reliability: Reliability
    precisions: tuple[PrecisionRow, ...]
    by_source: tuple[SourceRow, ...]
    cautions: tuple[str, ...]
    provenance: Provenance

    @property
    def title(self) -> str:
        """The model and the pairs."""
        return f"{self.model} on {self.pairs}"

    def record(self) -> dict[str, object]:
        """The content of ``report.json``."""
        return {"kind": KIND, **asdict(self), "provenance": to_json(self.provenance)}

    def tables(self) -> list[Table]:
        """The tables for a console, in percent."""
        cells = [interval_cell(rate.value, rate.low, rate.high, scale=100) for rate in self.rates]
        titles = [RATE_TITLES[rate.name] for rate in self.rates]
        measures = Table(
            [("Measure",), ("Percent",)],
            [*zip(titles, cells, strict=True)],
            self.title,
            f"{self.n_pairs:,} pairs of {self.n_images:,} images, {self.n_positive:,} entailed",
            notes=[
                f"Threshold {self.threshold!r}, {self.threshold_from}: {self.n_predicted:,} pairs reach it.",
                f"Brackets: {100 * CONFIDENCE:g}% intervals from a bootstrap over images.",
            ],
            cautions=self.cautions,
            data=describe_data(self.provenance.data, self.provenance.split, ""),
        )
        costs = Table(
            [("Precision",), ("Threshold",), ("Pairs found",), ("Of the entailed",)],
            [_precision_cells(row) for row in self.precisions],
            "Thresholds that reach a precision",
            notes=["These thresholds were chosen on the same pairs: expect slightly lower numbers on others."],
        )
        reliability = Table(
            [("Probability",), ("Pairs",), ("Mean",), ("Entailed",)],
            [_reliability_cells(row) for row in self.reliability.bins],
            "Calibration",
            notes=[f"Expected calibration error {100 * self.reliability.expected_error:.1f}."],
        )
        sources = Table(
            [("Source",), ("Pairs",), ("Entailed",), ("Error",), ("AUC",), ("Kappa",)],
            [_source_cells(row) for row in self.by_source],
            "By source of the pairs",
            notes=["Error: of calibration, in percent. Kappa: Cohen's, of the predictions with people's labels."],
        )
        return [measures, costs, reliability, sources]


def _precision_cells(row: PrecisionRow) -> tuple[str, ...]:
    wanted = f"at least {100 * row.wanted:g}"
    if row.threshold is None or row.found is None or row.recall is None:
        return (wanted, "not reached", MISSING, MISSING)
    return wanted, f"{row.threshold:.4f}", f"{row.found:,}", f"{100 * row.recall:.1f}"


def _reliability_cells(row: ReliabilityBin) -> tuple[str | Cell, ...]:
    span = f"{row.low:.1f} to {row.high:.1f}"
    share = interval_cell(row.share, row.share_low, row.share_high, scale=100)
    return span, f"{row.pairs:,}", f"{100 * row.probability:.1f}", share


def _source_cells(row: SourceRow) -> tuple[str, ...]:
    error = MISSING if row.calibration_error is None else f"{100 * row.calibration_error:.1f}"
    auc, kappa = (MISSING if value is None else f"{value:.3f}" for value in (row.auc, row.kappa))
    return row.source, f"{row.pairs:,}", f"{row.positive:,}", error, auc, kappa


def measure_by_source(
    sources: Sequence[str | None], labels: IntArray, probabilities: FloatArray, threshold: float
) -> tuple[SourceRow, ...]:
    """Calibration error, AUC and kappa of all pairs, and of each source if there are several."""
    names = np.array([name or "not named" for name in sources], dtype=object)
    distinct = sorted(set(names.tolist()))
    parts = {"all": np.ones(names.size, dtype=bool)}
    if len(distinct) > 1:
        parts |= {name: names == name for name in distinct}
    return tuple(_measure_source(name, labels[part], probabilities[part], threshold) for name, part in parts.items())


def _measure_source(name: str, labels: IntArray, values: FloatArray, threshold: float) -> SourceRow:
    predicted = (values >= threshold).astype(np.int64)
    positive = int(labels.sum())
    error = measure_reliability(labels, values).expected_error if positive else None
    auc = area_under_curve(labels, values) if 0 < positive < labels.size else None
    answers = set(labels.tolist()) | set(predicted.tolist())
    kappa = cohen_kappa(labels, predicted, 2) if len(answers) > 1 else None
    return SourceRow(source=name, pairs=labels.size, positive=positive, calibration_error=error, auc=auc, kappa=kappa)


def report_classifier(
    labelled: LabelledPairs,
    probabilities: ArrayLike,
    library: Library,
    *,
    model: str,
    threshold: float = 0.5,
    threshold_from: str = OWN_THRESHOLD,
    precision: float | None = None,
    training_data: TrainingRecord | None = None,
    seen: SeenPairs | None = None,
    **facts: Any,  # noqa: ANN401 - recorded as they are
) -> ClassifierReport:
    """Measure a classifier by its (N,) probabilities of labelled pairs; ``precision`` chooses the threshold here."""
    labels = labelled.labels
    images = labelled.images
    values = np.asarray(probabilities, dtype=np.float64)
    check_threshold(threshold)
    reliability = measure_reliability(labels, values)
    if precision is not None:
        threshold = choose_threshold(values, labels, precision=precision)
        threshold_from = f"chosen on these pairs for a precision of {100 * precision:g}%"
    rates = measure_classifier(labels, values, threshold, images)
    others = {"left_out": dict(labelled.left_out), "training_data": training_data, **facts}
    cautions = warn_of_training_data(training_data)
    if seen is not None:
        cautions += seen.warn(labelled.table)
    return ClassifierReport(
        model=model,
        pairs=labelled.name,
        n_pairs=labels.size,
        n_positive=int(labels.sum()),
        n_images=np.unique(images.astype(str)).size,
        threshold=float(threshold),
        threshold_from=threshold_from,
        n_predicted=int((values >= threshold).sum()),
        rates=rates,
        reliability=reliability,
        precisions=tuple(_cost(values, labels, wanted) for wanted in PRECISIONS),
        by_source=measure_by_source(labelled.table["source"].to_pylist(), labels, values, float(threshold)),
        cautions=cautions,
        provenance=make_provenance(library, facts=Provenance(confidence=CONFIDENCE, seed=0, others=others)),
    )


def _cost(values: FloatArray, labels: IntArray, wanted: float) -> PrecisionRow:
    try:
        threshold = choose_threshold(values, labels, precision=wanted)
    except InvalidOption:
        return PrecisionRow(wanted)
    selected = values >= threshold
    found = int(selected.sum())
    hits = int(labels[selected].sum())
    return PrecisionRow(wanted, threshold, found, precision=hits / found, recall=hits / int(labels.sum()))


CLASSIFIER_FILES = ("report.json", "probabilities.parquet")


def write_classifier_folder(
    folder: Path,
    report: ClassifierReport,
    labelled: LabelledPairs,
    probabilities: ArrayLike,
    command: str | None = None,
) -> list[Path]:
    """Write ``report.json`` and ``probabilities.parquet``; keep other files of the folder."""
    if command is not None:
        report = replace(report, provenance=replace(report.provenance, command=command))
    table = labelled.table.append_column("probability", pa.array(probabilities, pa.float64()))
    report_file, table_file = (folder / name for name in CLASSIFIER_FILES)
    with recorded_folder(folder, CLASSIFIER_FILES) as new:
        (new / report_file.name).write_text(report.to_json(), encoding="utf-8", newline="\n")
        write_parquet(table, new / table_file.name)
    return [report_file, table_file]
