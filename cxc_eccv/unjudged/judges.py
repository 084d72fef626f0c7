"""Judges of unjudged pairs: functions, tables and files; studies/entailment/judge.py is one more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.sources.columns import LABEL, PROBABILITY, WHOLE_NUMBER, read_columns, refuse_misnamed
from cxc_eccv.sources.library import Split
from cxc_eccv.types import LABEL_VALUES, PROBABILITY_VALUES, IntArray, check_values, find_positions
from cxc_eccv.types.ids import find_distinct
from cxc_eccv.types.provenance import JudgeFacts
from cxc_eccv.unjudged.policies import Classifier


class Judge(ABC):
    """A classifier that reports name, and that needs to know which data the ids belong to."""

    @property
    @abstractmethod
    def facts(self) -> JudgeFacts:
        """Facts about it for a report."""

    @abstractmethod
    def for_split(self, split: Split) -> Classifier:
        """The classifier for pairs of one split of one collection."""


AnyJudge: TypeAlias = "Judge | Classifier | pa.Table | str | Path | None"
"""What may answer for pairs without a label: a judge, a function, a table, or the path of its file; None for nobody."""


def read_judge(judge: AnyJudge) -> Judge | Classifier | None:
    """The judge that a caller names: one that needs data still, or a function of image ids and caption ids to labels.

    A function that also knows probabilities has them as its attribute ``probabilities``.
    """
    if isinstance(judge, str | Path):
        judge = read_judge_file(Path(judge))
    if isinstance(judge, pa.Table):
        return TableJudge(judge)
    if judge is None or isinstance(judge, Judge):
        return judge
    if not callable(judge):
        raise InvalidOption(
            f"the judge is a {type(judge).__name__}; give a function of image ids and caption ids, a table with "
            "image_id, caption_id and probability or label, the path of its file, or a ClassifierJudge"
        )
    return judge if hasattr(judge, "probabilities") else FunctionJudge(judge)


def read_judge_file(path: Path) -> pa.Table:
    """The answers in a file, with ``probability``, ``label`` or both beside the ids of the pairs."""
    forms = {"image_id": WHOLE_NUMBER, "caption_id": WHOLE_NUMBER, "label": LABEL, "probability": PROBABILITY}
    table = read_columns(path, "answers of a judge", forms)
    if not {"label", "probability"} & {*table.column_names}:
        refuse_misnamed(path, table, ("image_id", "caption_id"), "probability", "a column probability, or label")
    return table


class FunctionJudge:
    """Labels pairs by a function of image ids and caption ids to probabilities: 1 from one half on."""

    def __init__(self, probabilities: Classifier) -> None:
        self._function = probabilities

    def probabilities(self, image_ids: IntArray, caption_ids: IntArray) -> NDArray[Any]:
        """(P,) probabilities of (P,) images with (P,) captions; labels are probabilities of 0 and 1."""
        values = np.asarray(self._function(image_ids, caption_ids))
        return values.astype(np.float64) if values.dtype == bool else values

    def __call__(self, image_ids: IntArray, caption_ids: IntArray) -> NDArray[Any]:
        """(P,) labels of (P,) images with (P,) captions."""
        values = self.probabilities(image_ids, caption_ids)
        if values.shape != image_ids.shape or values.dtype.kind not in "iuf":
            raise DataError(
                f"the judge gave {values.dtype} values of shape {values.shape} for {image_ids.size} pairs; need one "
                "probability for each"
            )
        check_values(values, "probabilities of the judge", PROBABILITY_VALUES, (image_ids, caption_ids))
        return (values >= 0.5).astype(np.int64)


class TableJudge:
    """Looks up labels of pairs in a table; without ``label`` they are 1 from a ``probability`` of one half on."""

    def __init__(self, table: pa.Table) -> None:
        self.probabilities: Classifier | None = None
        if "probability" in table.column_names:
            self.probabilities = PairValues(table, "probability", "probabilities")
        self._labels: Classifier
        if "label" in table.column_names:
            self._labels = PairValues(table, "label", "labels of the judge")
        elif self.probabilities is not None:
            self._labels = FunctionJudge(self.probabilities)
        else:
            raise DataError(f"the judge's table: no label or probability among the columns {table.column_names}")

    def __call__(self, image_ids: IntArray, caption_ids: IntArray) -> NDArray[Any]:
        """(P,) labels of (P,) images with (P,) captions."""
        return np.asarray(self._labels(image_ids, caption_ids))


def policy_name(policy: str | Classifier) -> str:
    """The name of the policy in results; ``classifier`` stands for a judge."""
    return policy if isinstance(policy, str) else "classifier"


class PairValues:
    """Looks up a number for pairs of images and captions in a table."""

    def __init__(self, table: pa.Table, column: str, what: str) -> None:
        are_labels = column == "label"
        kinds = "biuf"
        self._remedy = "Add them to the table."
        if are_labels:
            kinds = "biu"
            self._remedy = "Label them too, or leave the judge out."
        columns = ("image_id", "caption_id", column)
        lacking = [name for name in columns if name not in table.column_names]
        if lacking:
            raise DataError(f"{what}: no {' and '.join(lacking)} among the columns {table.column_names}")
        images, captions, values = (np.asarray(table[name]) for name in columns)
        if any(ids.dtype.kind not in "iu" for ids in (images, captions)) or values.dtype.kind not in kinds:
            types = ", ".join(f"{name} {table[name].type}" for name in columns)
            raise DataError(f"{what}: need {'whole ' if are_labels else ''}numbers without nulls, found {types}")
        self._what = what
        self._sides = tuple(find_distinct(ids.astype(np.int64)) for ids in (images, captions))
        codes = self._code(images, captions)[0]
        order = np.argsort(codes, kind="stable")
        self._codes = codes[order]
        twice = order[1:][np.diff(self._codes) == 0]
        if twice.size:
            raise DataError(
                f"{what}: the pair of image {images[twice[0]]} and caption {captions[twice[0]]} occurs twice; list "
                "every pair once"
            )
        check_values(values, what, LABEL_VALUES if are_labels else PROBABILITY_VALUES, (images, captions))
        self._values = values[order].astype(np.int64) if are_labels else values[order]

    def __call__(self, image_ids: IntArray, caption_ids: IntArray) -> NDArray[Any]:
        """(P,) numbers for (P,) images and (P,) captions; raises DataError if the table lacks one."""
        wanted, inside = self._code(image_ids, caption_ids)
        places = np.searchsorted(self._codes, wanted)
        missing = np.flatnonzero(~inside | (np.append(self._codes, -1)[places] != wanted))
        if missing.size:
            image = image_ids[missing[0]]
            caption = caption_ids[missing[0]]
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
