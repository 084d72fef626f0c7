"""What every source of labels says of given (query, item) pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.judgments.evidence import label_sources
from cxc_eccv.judgments.merge import MergedPairs
from cxc_eccv.registry import tasks
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import IntArray, Report, positions_of

__all__ = ["PairVerdicts", "reads_categories", "same_categories", "sources_of", "verdicts_of_pairs"]


def sources_of(report: Report) -> tuple[str, ...]:
    """Sources of labels that the report's tasks have read, so that showing them needs no further raw file.

    The original links are always at hand. Tasks of another version read nothing that is known.

    Example:
        >>> from cxc_eccv.types import Result
        >>> sources_of(Report((Result("cxc", "t2t", "mrr", 0.5, 2),), {}, {}))
        ('coco', 'cxc')
    """
    read = {"coco"}.union(*(task.label_sources for task in _tasks_of(report)))
    return tuple(name for name in label_sources() if name in read)


def reads_categories(report: Report) -> bool:
    """Whether one of the report's tasks has read the object categories of images.

    Example:
        >>> from cxc_eccv.types import Result
        >>> reads_categories(Report((Result("plausible_match", "i2t", "pmrp", 0.5, 2),), {}, {}))
        True
    """
    return any(task.serves == "plausible_hits" for task in _tasks_of(report))


def _tasks_of(report: Report) -> list[Task]:
    names = dict.fromkeys(result.task for result in report.results)
    return [tasks()[name] for name in names if name in tasks()]


@dataclass(frozen=True, slots=True, eq=False)
class PairVerdicts:
    """P pairs; null where a source says nothing of the pair.

    Attributes:
        positive: (P,) whether any source calls the pair positive.
        columns: each source of labels (bool), ``cxc_rating`` and ``cxc_reverse`` (float64).
    """

    positive: NDArray[np.bool_]
    columns: Mapping[str, pa.Array]


def verdicts_of_pairs(merged: MergedPairs, query_ids: IntArray, item_ids: IntArray) -> PairVerdicts:
    """Look pairs up in the merged judgments.

    Some sources list positives alone, as the original links and ECCV Caption do: a pair that they do not list is
    false where they list another one of the query, and null where they do not judge the query.

    Args:
        merged: all judged pairs of a direction.
        query_ids: (P,) query of each pair.
        item_ids: (P,) item of each pair.

    Example:
        >>> from cxc_eccv.judgments.merge import merge
        >>> merged = merge(Library("sample"), "test", "i2t", sources=("coco",))
        >>> query, item = merged.query_ids[:1], merged.gallery_ids[:1]
        >>> found = verdicts_of_pairs(merged, query, item)
        >>> found.positive.tolist(), found.columns["coco"].to_pylist(), found.columns["cxc"].to_pylist()
        ([True], [True], [None])
    """
    size = merged.gallery_ids.size
    queries = positions_of(query_ids, merged.query_ids)[0]
    keys = queries * size + positions_of(item_ids, merged.gallery_ids)[0]
    judged_keys = merged.queries * size + merged.items  # ascending
    rows = np.minimum(np.searchsorted(judged_keys, keys), judged_keys.size - 1)
    known = judged_keys[rows] == keys
    columns = {name: _verdict(merged, name, queries, rows, known) for name in label_sources()}
    for name, ratings in (("cxc_rating", merged.ratings), ("cxc_reverse", merged.reverse)):
        columns[name] = pa.array(ratings[rows], mask=~known | np.isnan(ratings[rows]))
    return PairVerdicts(known & merged.positive[rows], columns)


def _verdict(
    merged: MergedPairs, source: str, queries: IntArray, rows: IntArray, known: NDArray[np.bool_]
) -> pa.BooleanArray:
    if source not in merged.sources:
        return pa.nulls(rows.size, pa.bool_())
    column = merged.sources.index(source)
    judged = known & merged.judged[rows, column]
    said = judged & merged.said_positive[rows, column]
    if label_sources()[source].lists_positives:
        asked = np.unique(merged.queries[merged.judged[:, column]])
        judged = np.isin(queries, asked)
    return pa.array(said, mask=~judged)


def same_categories(library: Library, split: str, images: Iterable[IntArray]) -> pa.BooleanArray:
    """Whether two images show the same object categories (a plausible match at zeta 0); null where either shows none.

    Args:
        library: the raw sources.
        split: of the images.
        images: two (P,) arrays of image ids.

    Example:
        >>> library = Library("sample")
        >>> ids = library.categories("test").image_ids[:2]
        >>> same_categories(library, "test", [ids, ids]).to_pylist()
        [True, True]
    """
    sets = library.categories(split)
    left, right = (sets.present[positions_of(ids, sets.image_ids)[0]] for ids in images)
    return pa.array((left == right).all(axis=1), mask=~(left.any(axis=1) & right.any(axis=1)))
