"""Labels for unjudged pairs: policies, judges (studies/entailment/judge.py is one), and tables of labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.metrics.entail_at_k import Classifier, check_policy
from cxc_eccv.sources.columns import NUMBER, PROBABILITY, read_columns
from cxc_eccv.sources.library import Split
from cxc_eccv.types import LABELS, PROBABILITIES, IntArray, check_values, find_positions
from cxc_eccv.types.ids import find_distinct
from cxc_eccv.types.provenance import JudgeFacts


class Judge(ABC):
    """A classifier that reports name, and that needs to know which data the ids belong to."""

    @property
    @abstractmethod
    def facts(self) -> JudgeFacts:
        """Facts about it for a report."""

    @abstractmethod
    def on(self, split: Split) -> Classifier:
        """The classifier for pairs of one split of one collection."""


Unjudged: TypeAlias = "str | Classifier | pa.Table | Judge"
"""Policy for unjudged retrieved pairs."""

Probabilities: TypeAlias = "Classifier | pa.Table | str | Path | None"
"""Source of probabilities of pairs."""


def read_probabilities(probabilities: Probabilities) -> Classifier:
    """The function of image ids and caption ids that a table, or its file, stands for."""
    if isinstance(probabilities, str | Path):
        forms = {"image_id": NUMBER, "caption_id": NUMBER, "probability": PROBABILITY}
        probabilities = read_columns(Path(probabilities), "probabilities", forms, *forms)
    if isinstance(probabilities, pa.Table):
        return PairValues(probabilities, "probability", "probabilities")
    if not callable(probabilities):
        raise InvalidOption(
            f"probabilities are a {type(probabilities).__name__}; give a function of image ids and caption ids, a "
            "table with image_id, caption_id and probability, or the path of its file"
        )
    return probabilities


def policy_name(unjudged: Unjudged) -> str:
    """The name of the policy in results."""
    if isinstance(unjudged, pa.Table | Judge) or callable(unjudged):
        return "classifier"
    check_policy(unjudged)
    return str(unjudged)


def policy_of(unjudged: Unjudged) -> str | Classifier:
    """The policy as the metric takes it; a table of labels becomes a classifier."""
    if isinstance(unjudged, Judge):
        raise InvalidOption("unjudged is a judge that has no data yet; pass what its method on(split) returns")
    return PairValues(unjudged, "label", "predicted labels") if isinstance(unjudged, pa.Table) else unjudged


class PairLabels:
    """Labels pairs by their ``probability`` in a table: 1 from one half on. Bounds read ``probabilities``."""

    def __init__(self, table: pa.Table) -> None:
        if "probability" not in table.column_names:
            raise DataError(f"predicted labels: no label or probability among the columns {table.column_names}")
        self.probabilities = PairValues(table, "probability", "probabilities")

    def __call__(self, image_ids: IntArray, caption_ids: IntArray) -> NDArray[Any]:
        """(P,) labels of (P,) images with (P,) captions."""
        return (self.probabilities(image_ids, caption_ids) >= 0.5).astype(np.int64)


class PairValues:
    """Looks up a number for pairs of images and captions in a table."""

    def __init__(self, table: pa.Table, column: str, what: str) -> None:
        are_labels = column == "label"
        kinds, self._remedy = "biuf", "Add them to the table."
        if are_labels:
            kinds, self._remedy = "biu", "Label them too, or choose another policy for unjudged pairs."
        columns = ("image_id", "caption_id", column)
        lacking = [name for name in columns if name not in table.column_names]
        if lacking:
            raise DataError(f"{what}: no {' and '.join(lacking)} among the columns {table.column_names}")
        images, captions, values = (np.asarray(table[name]) for name in columns)
        if any(ids.dtype.kind not in "iu" for ids in (images, captions)) or values.dtype.kind not in kinds:
            types = ", ".join(f"{name} {table[name].type}" for name in columns)
            raise DataError(f"{what}: need {'whole ' if are_labels else ''}numbers without nulls, found {types}")
        self._what, self._sides = what, tuple(find_distinct(ids.astype(np.int64)) for ids in (images, captions))
        codes = self._code(images, captions)[0]
        order = np.argsort(codes, kind="stable")
        self._codes = codes[order]
        twice = order[1:][np.diff(self._codes) == 0]
        if twice.size:
            raise DataError(
                f"{what}: the pair of image {images[twice[0]]} and caption {captions[twice[0]]} occurs twice; list "
                "every pair once"
            )
        check_values(values, what, LABELS if are_labels else PROBABILITIES, (images, captions))
        self._values = values[order].astype(np.int64) if are_labels else values[order]

    def __call__(self, image_ids: IntArray, caption_ids: IntArray) -> NDArray[Any]:
        """(P,) numbers for (P,) images and (P,) captions; raises DataError if the table lacks one."""
        wanted, inside = self._code(image_ids, caption_ids)
        places = np.searchsorted(self._codes, wanted)
        missing = np.flatnonzero(~inside | (np.append(self._codes, -1)[places] != wanted))
        if missing.size:
            image, caption = image_ids[missing[0]], caption_ids[missing[0]]
            raise DataError(
                f"{self._what} lack {missing.size} of {wanted.size} retrieved pairs without a label, the first: image "
                f"{image}, caption {caption}. {self._remedy}"
            )
        return np.asarray(self._values[places])

    def _code(self, image_ids: IntArray, caption_ids: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """(P,) codes of pairs, ascending by image and caption, and whether the table has both ids."""
        (rows, are_images), (columns, are_captions) = (
            find_positions(ids.astype(np.int64), known)
            for ids, known in zip((image_ids, caption_ids), self._sides, strict=True)
        )
        return rows * self._sides[1].size + columns, are_images & are_captions
