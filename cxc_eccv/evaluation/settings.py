"""Settings: how values are aggregated and shown, apart from what is evaluated; policies for pairs nobody judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.metrics.entail_at_k import UNJUDGED, Classifier
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import Collection
from cxc_eccv.types import IntArray, check_whole

__all__ = [
    "INTERVALS",
    "SPLITS",
    "Judge",
    "PredictedLabels",
    "Settings",
    "Unjudged",
    "check_split",
    "policy_name",
    "policy_of",
]

SPLITS = ("validation", "test")
INTERVALS = ("bootstrap", "binomial", "binomial_images", "none")


class Judge(ABC):
    """A classifier that is told which data the ids are of before it is asked, and whom a report names."""

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """What a report says of it."""

    @abstractmethod
    def on(self, library: Library, split: str, collection: Collection) -> Classifier:
        """The classifier of pairs of one split of one collection."""


Unjudged: TypeAlias = "str | Classifier | pa.Table | Judge"
"""What to do with retrieved pairs that nobody judged."""


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """Options of a report.

    Attributes:
        seed: of every bootstrap.
        confidence: of the intervals; None for no intervals.
        intervals: ``bootstrap`` over images; ``binomial``: Wilson's interval for metrics whose values are 0 or 1, as if
            queries were independent, the bootstrap for others; ``binomial_images``: likewise, but with the number of
            images behind the queries in place of the number of queries; or ``none``.
        unjudged: policy for retrieved pairs without a label: ``not_entailed``, ``leave_out``, a classifier, a judge, or
            a table of predicted labels.
        per_query: whether to keep the value of every query.

    Raises:
        UnknownName: no such kind of interval, no such policy.
        InvalidOption: a negative seed, or a confidence that is not between 0 and 1.
        DataError: a table of predicted labels that is malformed.

    Example:
        >>> Settings(seed=7).facts
        {'seed': 7, 'confidence': 0.95, 'intervals': 'bootstrap'}
    """

    seed: int = 0
    confidence: float | None = 0.95
    intervals: str = "bootstrap"
    unjudged: Unjudged = "not_entailed"
    per_query: bool = False

    def __post_init__(self) -> None:
        check_whole("seed", self.seed, least=0)
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise InvalidOption(f"confidence is {self.confidence!r}, expected a number between 0 and 1, as 0.95")
        if self.intervals not in INTERVALS:
            raise UnknownName("kind of intervals", self.intervals, INTERVALS)
        policy_name(self.unjudged)

    @property
    def level(self) -> float | None:
        """The confidence, or None where no intervals are asked for."""
        return None if self.intervals == "none" else self.confidence

    @property
    def facts(self) -> dict[str, Any]:
        """What a report records."""
        return {
            "seed": self.seed,
            "confidence": self.level,
            "intervals": "none" if self.level is None else self.intervals,
        }

    def on(self, library: Library, split: str, collection: Collection) -> Settings:
        """The same, with a judge that knows which data it is asked about."""
        if not isinstance(self.unjudged, Judge):
            return self
        return replace(self, unjudged=self.unjudged.on(library, split, collection))


def check_split(split: str) -> None:
    """Refuse a split that does not exist before any work is done."""
    if split not in SPLITS:
        raise UnknownName("split", split, SPLITS)


def policy_name(unjudged: Unjudged) -> str:
    """The policy's name, as results state it.

    Example:
        >>> policy_name("leave_out"), policy_name(lambda query_ids, item_ids: query_ids > 0)
        ('leave_out', 'classifier')
    """
    if isinstance(unjudged, pa.Table | Judge) or callable(unjudged):
        return UNJUDGED[-1]
    if unjudged == UNJUDGED[-1]:
        raise InvalidOption(f"unjudged is {unjudged!r}: give the classifier itself, or a table of its labels")
    if unjudged not in UNJUDGED:
        raise UnknownName("policy for unjudged pairs", unjudged, UNJUDGED)
    return str(unjudged)


def policy_of(unjudged: Unjudged) -> str | Classifier:
    """The policy as the metric takes it: a table of labels becomes a classifier; a judge has become one before."""
    if isinstance(unjudged, Judge):
        raise InvalidOption("a judge labels pairs of a split that it was told: give what its method on gave")
    return PredictedLabels(unjudged) if isinstance(unjudged, pa.Table) else unjudged


COLUMNS = ("image_id", "caption_id", "label")


class PredictedLabels:
    """A classifier whose labels were computed before.

    Args:
        table: ``image_id``, ``caption_id`` (whole numbers), ``label`` (1 or true where the image entails the caption,
            else 0); every pair once.

    Raises:
        DataError: a column is missing, holds nulls or is of another type; a pair is given twice.

    Example:
        >>> labels = PredictedLabels(pa.table({"image_id": [1, 1], "caption_id": [7, 8], "label": [1, 0]}))
        >>> labels(np.array([1, 1]), np.array([8, 7])).tolist()
        [0, 1]
    """

    def __init__(self, table: pa.Table) -> None:
        lacking = [name for name in COLUMNS if name not in table.column_names]
        if lacking:
            raise DataError(f"predicted labels: no {' and '.join(lacking)} among the columns {table.column_names}")
        images, captions, labels = (np.asarray(table[name]) for name in COLUMNS)
        if any(column.dtype.kind not in "iu" for column in (images, captions)) or labels.dtype.kind not in "biu":
            kinds = ", ".join(f"{name} {table[name].type}" for name in COLUMNS)
            raise DataError(f"predicted labels: need whole numbers without nulls, found {kinds}")
        order = np.lexsort((captions, images))
        self._pairs = np.stack([images[order], captions[order]], axis=1).astype(np.int64)
        twice = np.flatnonzero((np.diff(self._pairs, axis=0) == 0).all(axis=1))
        if twice.size:
            image, caption = self._pairs[twice[0]]
            raise DataError(f"predicted labels: the pair of image {image} and caption {caption} is given twice")
        self._labels = labels[order].astype(np.int64)

    def __call__(self, query_ids: IntArray, item_ids: IntArray) -> NDArray[np.int64]:
        """(P,) labels of (P,) images with (P,) captions; DataError where the table lacks one."""
        wanted = np.stack([query_ids, item_ids], axis=1).astype(np.int64)
        every, places = np.unique(np.concatenate([self._pairs, wanted]), axis=0, return_inverse=True)
        row_of = np.full(len(every), -1)
        row_of[places[: len(self._pairs)]] = np.arange(len(self._pairs))
        rows = row_of[places[len(self._pairs) :]]
        missing = np.flatnonzero(rows < 0)
        if missing.size:
            image, caption = wanted[missing[0]]
            raise DataError(
                f"predicted labels lack {missing.size} of {rows.size} retrieved pairs without a label, the first: "
                f"image {image}, caption {caption}. Label these too, or choose another policy for unjudged pairs."
            )
        return np.asarray(self._labels[rows])
