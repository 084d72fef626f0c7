"""One table of everything judged in a direction: sources, ratings, rule, conflict, and the policy's verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.judgments.evidence import Evidence, Thresholds, gather, item_ids, label_sources
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray, IntArray, positions_of
from cxc_eccv.types.ids import distinct_of

__all__ = ["POLICIES", "MergedPairs", "merge", "merge_evidence"]

POLICIES = ("union", "strict", "override")

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class MergedPairs:
    """Every judged (query, item) pair of a direction once, by query and item in Karpathy order.

    Attributes:
        query_ids, gallery_ids: all items of the direction.
        queries, items: (P,) positions in them.
        sources: names of the S sources consulted that judge this direction.
        judged, said_positive: (P, S) whether each source judged the pair, and its verdict.
        ratings: (P,) CxC rating of (query, item), or NaN; for image-image ``reverse`` is that of (item, query).
        positive: (P,) the verdict under the policy.
        conflict: (P,) sources contradict each other, or the two SIS ratings fall on different sides.
        rules: what makes a source say positive, one text per source.
        left_out: rule to the number of raw judgments that are in no row.
    """

    query_ids: IntArray
    gallery_ids: IntArray
    queries: IntArray
    items: IntArray
    sources: tuple[str, ...]
    judged: BoolArray
    said_positive: BoolArray
    ratings: FloatArray
    reverse: FloatArray
    positive: BoolArray
    conflict: BoolArray
    rules: tuple[str, ...]
    left_out: dict[str, int]


def merge(
    library: Library,
    split: str,
    direction: str,
    *,
    sources: Sequence[str] | None = None,
    policy: str = "union",
    thresholds: Thresholds | None = None,
) -> MergedPairs:
    """Merge what the sources, all that are declared unless some are named, say of a direction.

    Policies: under ``union`` a pair is positive where any source says so; under ``strict`` where one says so and none
    contradicts; under ``override`` the latest source that judged the pair decides, in the order of
    :func:`cxc_eccv.judgments.evidence.label_sources`: coco, cxc, eccv, entailment.
    """
    known = label_sources()
    asked = known if sources is None else sources
    if not asked:
        raise InvalidOption(f"no source of judgments given; choose among {', '.join(known)}")
    for name in asked:
        if name not in known:
            raise UnknownName("source of judgments", name, known)
    limits = thresholds or Thresholds()
    query_ids, gallery_ids = item_ids(library, split, direction)
    # Oldest first, whatever the caller's order: `override` depends on it.
    wanted = [name for name in known if name in asked]
    found = [e for name in wanted if (e := gather(library, split, direction, name, limits)) is not None]
    return merge_evidence(found, query_ids, gallery_ids, direction, policy, limits)


def merge_evidence(
    found: Sequence[Evidence],
    query_ids: IntArray,
    gallery_ids: IntArray,
    direction: str,
    policy: str,
    thresholds: Thresholds,
) -> MergedPairs:
    """Merge evidence, oldest source first; a source that appears twice says positive where either part does."""
    if policy not in POLICIES:
        raise UnknownName("policy", policy, POLICIES)
    places = [(positions_of(said.queries, query_ids)[0], positions_of(said.items, gallery_ids)[0]) for said in found]
    keys = [rows * gallery_ids.size + columns for rows, columns in places]
    pairs = distinct_of(np.concatenate(keys)) if keys else np.empty(0, dtype=np.int64)
    names = tuple(dict.fromkeys(evidence.source for evidence in found))
    judged, said_positive = np.zeros((2, pairs.size, len(names)), dtype=bool)
    ratings, reverse = np.full((2, pairs.size), np.nan)
    left_out: Counter[str] = Counter()
    for evidence, key in zip(found, keys, strict=True):
        left_out.update(evidence.left_out)
        rows, column = np.searchsorted(pairs, key), names.index(evidence.source)
        judged[rows, column] = True
        said_positive[rows, column] |= evidence.positive
        if evidence.source == "cxc":  # the columns are CxC's: another source's scale would not be theirs
            ratings[rows], reverse[rows] = evidence.ratings, evidence.reverse
    return MergedPairs(
        query_ids=query_ids,
        gallery_ids=gallery_ids,
        queries=pairs // max(gallery_ids.size, 1),
        items=pairs % max(gallery_ids.size, 1),
        sources=names,
        judged=judged,
        said_positive=said_positive,
        ratings=ratings,
        reverse=reverse,
        positive=_verdict(policy, judged, said_positive),
        conflict=_conflict(judged, said_positive, ratings, reverse, thresholds.of_direction(direction)),
        rules=tuple(f"{name}: {label_sources()[name].rule(direction, thresholds)}" for name in names),
        left_out=dict(left_out),
    )


def _verdict(policy: str, judged: BoolArray, said_positive: BoolArray) -> BoolArray:
    any_positive = said_positive.any(axis=1)
    if policy == "union" or not judged.size:
        return np.asarray(any_positive)
    if policy == "strict":
        return np.asarray(any_positive & ~(judged & ~said_positive).any(axis=1))
    last = judged.shape[1] - 1 - np.argmax(judged[:, ::-1], axis=1)
    return np.asarray(said_positive[np.arange(last.size), last])


def _conflict(
    judged: BoolArray, said_positive: BoolArray, ratings: FloatArray, reverse: FloatArray, threshold: float
) -> BoolArray:
    contradicted = said_positive.any(axis=1) & (judged & ~said_positive).any(axis=1)
    both = ~np.isnan(ratings) & ~np.isnan(reverse)
    return np.asarray(contradicted | (both & ((ratings >= threshold) != (reverse >= threshold))))
