"""People's answers about pairs that were drawn for a number, and what they say of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.evaluation.bounds import SamplingUnits
from cxc_eccv.report import Report
from cxc_eccv.sources.readers import find_labels, read_labels
from cxc_eccv.sources.reading import check_content
from cxc_eccv.statistics import Estimate, estimate_mean
from cxc_eccv.types import Bounds, FloatArray, IntArray
from cxc_eccv.types.provenance import AnswerFacts
from cxc_eccv.types.strict_json import COUNT, MAPPING, NUMBER, TEXT, Shape

UNSHOWN_CONFIDENCE = 0.95
"""Level behind a value that is shown without an interval."""

DRAWING_SHAPE: Shape = {
    "options": {"metric": TEXT, "frame": TEXT, "sum_of_probabilities": NUMBER},
    "counts": {"candidates": COUNT},
}
"""What a label file must say of the round in which pairs were drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers about all drawn pairs."""

    path: Path
    split: str
    key: str  # task/direction/metric for which the pairs were drawn
    frame: str  # fingerprint of the units among which they were drawn
    images: IntArray  # (P,) ids of the drawn pairs
    captions: IntArray
    labels: FloatArray  # 1 for a match, else 0
    drawn: FloatArray  # the probability with which each pair was drawn

    @property
    def facts(self) -> AnswerFacts:
        """What a report records."""
        return AnswerFacts(self.key, self.labels.size, int(self.labels.sum()))

    def add_to(self, bounds: Bounds, units: SamplingUnits, clusters: IntArray, level: float | None) -> Bounds:
        """The bounds with the number if people had labelled all open pairs, and with the precision of their judge.

        ``clusters`` holds the (U,) image of each unit; a ``level`` of None leaves out the intervals.
        """
        drawn = self.estimate(units, clusters, level or UNSHOWN_CONFIDENCE)
        share = self._find_precision(units, level or UNSHOWN_CONFIDENCE)
        if level is None:
            return replace(bounds, estimate=drawn.value, precision=None if share is None else share.value)
        bounds = replace(bounds, estimate=drawn.value, estimate_low=drawn.low, estimate_high=drawn.high)
        if share is None:
            return bounds
        return replace(bounds, precision=share.value, precision_low=share.low, precision_high=share.high)

    def estimate(self, units: SamplingUnits, clusters: IntArray, confidence: float) -> Estimate:
        """The number if people had labelled all open pairs, with an interval over the answers and over (U,) images."""
        if units.fingerprint != self.frame:
            raise DataError(
                f"{self.path}: the pairs were drawn for {self.key} of another run or with other labels: this one has "
                "other unlabelled pairs. Evaluate the run that they were drawn for, with the same --sources"
            )
        asked = self._find(units.images, units.captions)
        if -1 in asked or np.isin(units.owners, units.owners[asked]).sum() != len(asked):
            raise DataError(
                f"{self.path}: its pairs are not those that were drawn for {self.key}; the file was changed. "
                "Merge again"
            )
        labels, chances = np.full((2, units.owners.size), np.nan)
        labels[asked], chances[asked] = self.labels, self.drawn
        # A unit without open pairs is known.
        of_unit = np.ones(units.query_ids.size)
        of_unit[units.owners] = chances
        known = np.flatnonzero(~np.isnan(of_unit))
        values = units.value(np.nan_to_num(labels))
        return estimate_mean(
            units.predicted, known, values[known], of_unit[known], clusters=clusters, confidence=confidence
        ).as_share

    def _find_precision(self, units: SamplingUnits, confidence: float) -> Estimate | None:
        """The share of positives among the pairs that the judge calls entailed; None without a judge or too few."""
        if units.labels is None:
            return None
        entailed = np.flatnonzero(units.labels == 1)
        indices = self._find(units.images[entailed], units.captions[entailed])
        rows = np.flatnonzero(indices >= 0)
        predicted = units.predicted[units.owners[entailed]]
        try:
            return estimate_mean(
                predicted, indices[rows], self.labels[rows], self.drawn[rows], confidence=confidence
            ).as_share
        except DataError:  # too few, or all alike
            return None

    def _find(self, images: IntArray, captions: IntArray) -> IntArray:
        """(P,) index of each drawn pair among these pairs, or -1."""
        indices = {pair: index for index, pair in enumerate(zip(images.tolist(), captions.tolist(), strict=True))}
        drawn = zip(self.images.tolist(), self.captions.tolist(), strict=True)
        return np.array([indices.get(pair, -1) for pair in drawn], dtype=np.int64)

    def refuse_unused(self, report: Report, split: str) -> None:
        """Raise InvalidOption unless they estimate a number of the report."""
        if not any(row.bounds is not None and row.bounds.estimate is not None for row in report.results):
            task, _, metric = self.key.rpartition("/")
            raise InvalidOption(
                f"{self.path} answers for {self.key} on {self.split}, which is not evaluated on {split}: add "
                f"--tasks {task} --metrics {metric} --split {self.split.removesuffix('idation')}"
            )


def read_answers(path: str | Path) -> Answers:
    """The answers in the folder or label file of an annotation project; DataError if any drawn pair lacks a label."""
    file, *others = find_labels(path)[0]
    if others:
        names = ", ".join(each.name for each in (file, *others))
        raise InvalidOption(f"answers: {path} has several label files, {names}; give the path of one of them")
    labels = read_labels(file)
    path = labels.path
    table = labels.table
    table = table.filter(pc.is_valid(table["drawn"])) if "drawn" in table.column_names else table.slice(0, 0)
    if not table.num_rows:
        raise DataError(
            f"{path}: the pairs were chosen, not drawn, so they do not represent the others. Pairs must be drawn for a "
            "number: cxc-eccv annotate propose FOLDER MODEL --number TASK/DIRECTION/METRIC"
        )
    check_content(path, labels.facts, {"rounds": [MAPPING]})
    # Pairs are drawn in the first round of a project only.
    drawing: dict[str, Any] = next(iter(labels.facts["rounds"]), {})
    check_content(path, drawing, DRAWING_SHAPE)
    options = drawing["options"]
    candidates = drawing["counts"]["candidates"]
    lacking = candidates - table.num_rows
    if lacking:
        raise DataError(
            f"{path}: {lacking:,} of the {candidates:,} drawn pairs have no label, and leaving "
            "them out would bias the estimate. Import the answers to all sheets, accept them, and merge again"
        )
    images, captions, positive, drawn = (
        np.asarray(table[name]) for name in ("image_id", "caption_id", "positive", "drawn")
    )
    if not math.isclose(math.fsum(drawn), options["sum_of_probabilities"], rel_tol=1e-9):
        raise DataError(
            f"{path}: the probabilities in its column drawn are not those with which pairs were drawn; the file was "
            "changed. Merge again"
        )
    frame = (options["metric"], options["frame"])
    return Answers(path, labels.split, *frame, images, captions, positive.astype(np.float64), drawn)
