"""Top items of rankings beside their judgments, and what is done with pairs that nobody judged."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.metrics.entail_at_k import UNJUDGED, Classifier
from cxc_eccv.metrics.top_gains import TopGains
from cxc_eccv.types import IntArray, Judgments, TopK

__all__ = [
    "PredictedLabels",
    "Unjudged",
    "judged_share",
    "policy_name",
    "policy_of",
    "queries_with_judged",
    "tied_queries",
]


def judged_share(top: TopK, judgments: Judgments, k: int) -> float:
    """Share of the top K items of all queries that are judged.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 1], [0], [0], gains=np.array([1.0]))
        >>> judged_share(TopK(np.array([5]), np.array([[9, 7]])), qrels, 2)
        0.5
    """
    return float(TopGains.of(top, judgments, k, "coverage").judged.mean())


def queries_with_judged(top: TopK, judgments: Judgments, k: int) -> tuple[TopK, Judgments]:
    """The top items and judgments of those queries that have a judged item among their top K.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 1], [0], [0], gains=np.array([1.0]))
        >>> queries_with_judged(TopK(np.array([5]), np.array([[9, 7]])), qrels, 1)[0].query_ids.size
        0
    """
    rows = np.flatnonzero(TopGains.of(top, judgments, k, "coverage").judged.any(axis=1))
    kept = TopK(top.query_ids[rows], top.ids[rows])
    return kept, _rows_of(judgments, rows)


def _rows_of(judgments: Judgments, rows: IntArray) -> Judgments:
    entries = np.isin(judgments.rows, rows)
    return replace(
        judgments,
        query_ids=judgments.query_ids[rows],
        indptr=np.concatenate([[0], np.cumsum(np.diff(judgments.indptr)[rows])]),
        indices=judgments.indices[entries],
        unreachable=judgments.unreachable[rows],
        gains=None if judgments.gains is None else judgments.gains[entries],
    )


def tied_queries(top: TopK, judgments: Judgments, k: int) -> int:
    """Queries in which the tie rule decided: items of unequal gain tie in the top K, or a tie goes beyond its end.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 1], [0], [0], gains=np.array([1.0]))
        >>> scores = np.array([[0.5, 0.5]], dtype=np.float32)
        >>> tied_queries(TopK(np.array([5]), np.array([[9, 7]]), scores, np.array([0])), qrels, 2)
        1
    """
    if top.scores is None or top.cut is None:
        return 0
    gains = TopGains.of(top, judgments, k, "ties").gains
    equal = top.scores[:, 1:] == top.scores[:, :-1]
    shown = gains.shape[1]
    within = (equal[:, : shown - 1] & (gains[:, 1:] != gains[:, :-1])).any(axis=1)
    beyond = equal[:, shown - 1] if shown < top.depth else top.cut > 0
    return int(np.count_nonzero(within | beyond))


Unjudged: TypeAlias = "str | Classifier | pa.Table"

COLUMNS = ("image_id", "caption_id", "label")


def policy_name(unjudged: Unjudged) -> str:
    """The policy's name, as results state it.

    Raises:
        UnknownName: no such policy.
        InvalidOption: ``classifier`` by name alone.

    Example:
        >>> policy_name("leave_out"), policy_name(lambda query_ids, item_ids: query_ids > 0)
        ('leave_out', 'classifier')
    """
    if isinstance(unjudged, pa.Table) or callable(unjudged):
        return UNJUDGED[-1]
    if unjudged == UNJUDGED[-1]:
        raise InvalidOption(f"unjudged is {unjudged!r}: give the classifier itself, or a table of its labels")
    if unjudged not in UNJUDGED:
        raise UnknownName("policy for unjudged pairs", unjudged, UNJUDGED)
    return str(unjudged)


def policy_of(unjudged: Unjudged) -> str | Classifier:
    """The policy as the metric takes it: a table of labels becomes a classifier.

    Raises:
        DataError: a table without the columns ``image_id``, ``caption_id``, ``label``, or malformed.
    """
    return PredictedLabels(unjudged) if isinstance(unjudged, pa.Table) else unjudged


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
        """(P,) labels of (P,) images with (P,) captions.

        Raises:
            DataError: the table lacks pairs; names the first and how many.
        """
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
