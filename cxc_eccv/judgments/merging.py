"""Merges the sources of labels under a policy, and builds the judgments of each task.

:func:`merge` returns one table of all judged pairs of a direction. The functions below it turn such tables, or single
sources, into what ranking needs: positives, gains or rated pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.judgments.evidence.source import (
    RATING_KIND,
    Evidence,
    Thresholds,
    gather,
    item_ids,
    labels_of_file,
    list_sources,
    merged_official,
    merged_sources,
    number_pairs,
)
from cxc_eccv.sources.library import Split
from cxc_eccv.types import CROSS_MODAL, FloatArray, IntArray, Judgments, RatedPairs, find_positions
from cxc_eccv.types.ids import find_distinct, make_indptr
from cxc_eccv.types.judgments import orient

POLICIES = ("union", "strict", "override")

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class MergedPairs:
    """Every judged (query, item) pair of a direction once, sorted by query and item in Karpathy order."""

    query_ids: IntArray
    gallery_ids: IntArray
    queries: IntArray  # (P,) positions in query_ids
    items: IntArray  # (P,) positions in gallery_ids
    sources: tuple[str, ...]  # the S sources that judge this direction
    judged: BoolArray  # (P, S)
    said_positive: BoolArray  # (P, S)
    ratings: FloatArray  # (P,) of CxC, or NaN
    reverse: FloatArray  # (P,) rating of (item, query) where both are images, or NaN
    searched: BoolArray  # (Q,) whether one of the sources looked for matches of the query
    positive: BoolArray  # (P,) verdict under the policy
    conflict: BoolArray  # (P,) sources contradict each other, or the two SIS ratings disagree
    rules: tuple[str, ...]  # why pairs are positive, one text per source
    left_out: dict[str, int]  # rule to the number of raw judgments that it left out

    @property
    def said_negative(self) -> BoolArray:
        """(P, S) the source judged the pair and says no."""
        return np.asarray(self.judged & ~self.said_positive)

    @property
    def asked(self) -> IntArray:
        """Positions of the queries: all that a source searched and that have a positive.

        Other captions and images occur only as items of such queries. Most of their matches are unknown, perhaps their
        own image or captions too.
        """
        has_positive = np.bincount(self.queries[self.positive], minlength=self.query_ids.size) > 0
        return np.flatnonzero(has_positive & self.searched)


def merge(
    split: Split,
    direction: str,
    *,
    sources: Sequence[str] | None = None,
    policy: str = "union",
    thresholds: Thresholds | None = None,
) -> MergedPairs:
    """Merge the judgments of several sources, by default :data:`MERGED` and the library's labels, in one direction.

    Under ``union`` a pair is positive if any source says so; under ``strict``, if one says so and none contradicts;
    under ``override`` the latest source that judged the pair decides, in the order coco, cxc, eccv, entailment, label
    files. Weak positives (mined) are pairs that none of these judges. What people said of an image and a caption counts
    in both directions, also where ECCV Caption lists the pair in one.
    """
    known = list_sources(split.library)
    names = merged_sources(split.library) if sources is None else sources
    if not names:
        raise InvalidOption(f"there is no source of judgments; choose among {', '.join(known)}")
    for name in names:
        if name not in known:
            raise UnknownName("source of judgments", name, known)
    limits = thresholds or Thresholds()
    ids = item_ids(split, direction)
    # Oldest first, whatever the caller's order: `override` depends on it.
    ordered = [name for name in known if name in names]
    evidence = [e for name in ordered if (e := gather(split, direction, name, limits)) is not None]
    return merge_evidence(evidence, ids, policy, limits.of_direction(direction))


def merge_evidence(
    evidence: Sequence[Evidence], ids: tuple[IntArray, IntArray], policy: str, threshold: float
) -> MergedPairs:
    """Merge evidence, oldest source first; if a source appears twice, either part can make a pair positive.

    ``ids`` are those of the queries and of the gallery.
    """
    if policy not in POLICIES:
        raise UnknownName("policy", policy, POLICIES)
    query_ids, gallery_ids = ids
    keys = [number_pairs(part.queries, part.items, query_ids, gallery_ids) for part in evidence]
    pairs, merged = np.unique(np.concatenate([np.empty(0, np.int64), *keys]), return_inverse=True)
    places_of_pairs = np.split(merged, np.cumsum([key.size for key in keys])[:-1])
    rules = {part.source: part.rule for part in evidence}
    names = tuple(rules)
    judged, said_positive = np.zeros((2, pairs.size, len(names)), dtype=bool)
    ratings, reverse = np.full((2, pairs.size), np.nan)
    searched = np.zeros(query_ids.size, dtype=bool)
    left_out: Counter[str] = Counter()
    for part, rows in zip(evidence, places_of_pairs, strict=False):
        left_out.update(part.left_out)
        column = names.index(part.source)
        judged[rows, column] = True
        said_positive[rows, column] |= part.positive
        searched |= np.isin(query_ids, part.searched)
        if part.source == "cxc":  # other sources rate on other scales
            ratings[rows] = part.ratings
            reverse[rows] = part.reverse
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
        searched=searched,
        positive=_verdict(policy, judged, said_positive),
        conflict=_conflict(judged, said_positive, (ratings, reverse), threshold),
        rules=tuple(f"{name}: {rule}" for name, rule in rules.items()),
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
    judged: BoolArray, said_positive: BoolArray, ratings: tuple[FloatArray, FloatArray], threshold: float
) -> BoolArray:
    contradicted = said_positive.any(axis=1) & (judged & ~said_positive).any(axis=1)
    both = ~np.isnan(ratings).any(axis=0)
    return np.asarray(contradicted | (both & np.diff(np.greater_equal(ratings, threshold), axis=0)[0]))


def judged_pairs(split: Split, direction: str, sources: Sequence[str]) -> tuple[IntArray, IntArray]:
    """(P,) query ids and (P,) item ids of the pairs that any of the sources judged.

    COCO and ECCV Caption count as judging only the pairs they list; their files have no rejected ones.
    """
    if not sources:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    pairs = merge(split, direction, sources=sources)
    return pairs.query_ids[pairs.queries], pairs.gallery_ids[pairs.items]


def merged_qrels(
    split: Split,
    direction: str,
    *,
    sources: Sequence[str] = ("coco", "cxc"),
    policy: str = "union",
    thresholds: Thresholds | None = None,
) -> Judgments:
    """Positives of the merged judgments; queries without a positive, and those that no source searched, are left out.

    The default is the retrieval protocol of the CxC paper: original COCO links and rated positives.

    Args:
        split: ``validation`` or ``test`` of COCO; any split for ``sources=("coco",)``.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``; in the last two a query is not in its gallery.
        sources: any of ``coco``, ``cxc``, ``eccv``, ``entailment``, ``mined`` and the names of the library's label
            files.
        policy: as in :func:`cxc_eccv.judgments.merging.merge`.
        thresholds: lowest CxC ratings that count as positive; by default the paper's.

    Example:
        >>> from cxc_eccv.sources.library import Library
        >>> merged_qrels(Library("sample").split("test"), "t2t").without_self
        True
    """
    pairs = merge(split, direction, sources=sources, policy=policy, thresholds=thresholds)
    kept = pairs.positive & pairs.searched[pairs.queries]
    return Judgments.from_pairs(
        pairs.query_ids[pairs.asked],
        pairs.gallery_ids,
        pairs.query_ids[pairs.queries[kept]],
        pairs.gallery_ids[pairs.items[kept]],
        without_self=direction in ("t2t", "i2i"),
    )


def coco_links(split: Split, direction: str) -> Judgments:
    """The original COCO links, as in COCO 1K and 5K; for t2t, captions of the same image."""
    return merged_qrels(split, direction, sources=("coco",))


def original_links(split: Split, direction: str) -> Judgments:
    """The links between the images of a split and the captions that were written for them."""
    if direction not in CROSS_MODAL:
        raise UnknownName(f"direction of {split.collection.title}", direction, CROSS_MODAL)
    pairs = orient(split.caption_image_ids, split.caption_ids, direction)
    return Judgments.from_pairs(*orient(split.image_ids, split.caption_ids, direction), *pairs)


def cxc_rated(split: Split, direction: str) -> Judgments:
    """Pairs that CxC rated as positive, as in the eccv_caption package; COCO links rated below 3 are not positive."""
    return merged_qrels(split, direction, sources=("cxc",))


def eccv_caption(split: Split, direction: str) -> Judgments:
    """Positives of ECCV Caption on COCO's test split; each direction has separate queries.

    Two positive captions are outside the 25,000 of the split; they count as unreachable positives.

    Example:
        >>> from cxc_eccv.sources.library import Library
        >>> qrels = eccv_caption(Library("sample").split("test"), "i2t")
        >>> int(qrels.unreachable.sum())
        1
    """
    table = split.eccv("eccv", direction)
    queries = np.asarray(table["query_id"])
    all_queries, gallery_ids = item_ids(split, direction)
    asked = all_queries[find_positions(all_queries, find_distinct(queries))[1]]
    return Judgments.from_pairs(asked, gallery_ids, queries, np.asarray(table["item_id"]))


def cxc_ratings(split: Split, direction: str) -> Judgments:
    """All pairs that CxC rated, with the rating from 0 to 5 as gain; of two ratings of a pair, the higher one.

    Unrated pairs are unjudged, even original links. Queries without a rating above 0 are left out.
    """
    pairs = merge(split, direction, sources=("cxc",))
    gains = np.fmax(pairs.ratings, pairs.reverse)
    rated = np.isin(pairs.queries, pairs.queries[gains > 0])
    asked, rows = np.unique(pairs.queries[rated], return_inverse=True)
    query_ids = pairs.query_ids[asked]
    within = RATING_KIND[direction] != "sits"
    return _with_gains(query_ids, pairs.gallery_ids, rows, pairs.items[rated], gains[rated], within=within)


def searched_qrels(split: Split, direction: str) -> Judgments:
    """The benchmark of label files: their searched queries, with the positives of official sources and of the files."""
    sources = _without_tables(split)
    return _only_searched(split, direction, merged_qrels(split, direction, sources=sources))


def searched_degrees(split: Split, direction: str) -> Judgments:
    """All judged pairs of these queries: an official positive has degree 1, others their highest gain, negatives 0."""
    pairs = merge(split, direction, sources=_without_tables(split))
    official = np.array([name not in split.library.label_names for name in pairs.sources], dtype=bool)
    degrees = np.asarray(pairs.said_positive[:, official].any(axis=1), dtype=np.float64)
    numbers = pairs.queries * pairs.gallery_ids.size + pairs.items
    for name in split.library.label_names:
        file = split.labels(name)
        if file is not None and not file.is_plain:
            columns = ("image_id", "caption_id", "gain", "positive")
            images, captions, gains, positive = (np.asarray(file.table[column]) for column in columns)
            own = number_pairs(*orient(images, captions, direction), pairs.query_ids, pairs.gallery_ids)
            np.maximum.at(degrees, np.searchsorted(numbers, own), np.where(positive, gains, 0.0))
    kept = np.isin(pairs.queries, pairs.queries[degrees > 0])
    asked, rows = np.unique(pairs.queries[kept], return_inverse=True)
    judged = _with_gains(pairs.query_ids[asked], pairs.gallery_ids, rows, pairs.items[kept], degrees[kept])
    return _only_searched(split, direction, judged)


def _without_tables(split: Split) -> list[str]:
    """The official sources and label files; nobody knows what was searched for a plain table."""
    return [name for name in merged_official(split.library) if name not in split.library.table_names]


def _only_searched(split: Split, direction: str, judged: Judgments) -> Judgments:
    files = [file for name in split.library.label_names if (file := split.labels(name)) is not None]
    searched = np.concatenate([np.empty(0, np.int64), *(file.searched(direction) for file in files)])
    return judged.without(np.setdiff1d(judged.query_ids, searched), np.empty(0, np.int64))


def entailment_labels(split: Split) -> Judgments:
    """Labels of image queries: 1 for ground-truth and entailed captions, 0 for captions judged not entailed.

    A file of entailment labels decides on the pairs it has, except that original captions stay 1.
    """
    pairs = entailed_pairs(split)
    truth = coco_links(split, "i2t")
    return label_pairs(truth, pairs.queries, pairs.items, pairs.positive)


def flickr30k_entailment_labels(split: Split) -> Judgments:
    """Labels of Flickr30k's images: 1 for original captions, and those of a file of entailment labels for others."""
    truth = original_links(split, "i2t")
    images, captions, labels, _ = labels_of_file(split, split.entailment())
    queries = find_positions(images, truth.query_ids)[0]
    items = find_positions(captions, truth.gallery_ids)[0]
    return label_pairs(truth, queries, items, labels)


def flickr30k_label_conflicts(split: Split) -> dict[str, dict[str, Any]]:
    """How often a file of entailment labels contradicts the original links, which stay 1; empty without a file."""
    pairs = split.entailment()
    if pairs is None:
        return {}
    images, captions, labels, left_out = labels_of_file(split, pairs)
    linked = split.owners_of(captions) == images
    facts = {"pairs": labels.size, "against_original_links": int((linked & ~labels).sum())}
    return {"flickr30k_entailment_labels": facts | ({"left_out": left_out} if left_out else {})}


def label_pairs(truth: Judgments, queries: IntArray, items: IntArray, labels: BoolArray) -> Judgments:
    """Judgments from (P,) labels of pairs, given by positions in ``truth``, and original links, which stay 1."""
    size = truth.gallery_ids.size
    judged = queries * size + items
    linked = truth.rows * size + truth.indices
    every, occurrence = np.unique(np.concatenate([judged, linked]), return_inverse=True)
    gains = np.zeros(every.size)
    gains[occurrence[: judged.size]] = labels
    gains[occurrence[judged.size :]] = 1
    return _with_gains(truth.query_ids, truth.gallery_ids, *np.divmod(every, size), gains)


def label_conflicts(split: Split) -> dict[str, dict[str, int]]:
    """How often a file of entailment labels contradicts other sources on its pairs; empty without a file."""
    if gather(split, "i2t", "entailment", Thresholds()) is None:
        return {}
    pairs = entailed_pairs(split)
    truth = coco_links(split, "i2t")
    annotated, entailed = _labels_of_pairs(pairs)
    if not annotated.any():
        return {}
    size = pairs.gallery_ids.size
    linked = np.isin(pairs.queries * size + pairs.items, truth.rows * size + truth.indices)
    return {
        "entailment_labels": {
            "pairs": int(annotated.sum()),
            "against_cxc_or_eccv_caption": int((annotated & pairs.conflict).sum()),
            "against_original_links": int((annotated & ~entailed & linked).sum()),
        }
    }


def entailed_pairs(split: Split, *, policy: str = "union", thresholds: Thresholds | None = None) -> MergedPairs:
    """(image, caption) pairs labelled by binarised CxC SITS ratings, ECCV positives or a file of entailment labels.

    As in the multi-modal entailment paper, a label of the file overrides other sources; ``policy`` merges these for
    pairs without one. Original COCO links do not count.
    """
    limits = thresholds or Thresholds()
    pairs = merge(split, "i2t", sources=("cxc", "eccv", "entailment"), policy=policy, thresholds=limits)
    annotated, entailed = _labels_of_pairs(pairs)
    return replace(pairs, positive=np.where(annotated, entailed, pairs.positive))


def _labels_of_pairs(pairs: MergedPairs) -> tuple[BoolArray, BoolArray]:
    """(P,) bool, whether a file of entailment labels labels the pair, and (P,) bool, whether as entailed."""
    if "entailment" not in pairs.sources:
        return np.zeros_like(pairs.positive), np.zeros_like(pairs.positive)
    column = pairs.sources.index("entailment")
    return pairs.judged[:, column], pairs.said_positive[:, column]


def _with_gains(
    query_ids: IntArray,
    gallery_ids: IntArray,
    rows: NDArray[np.integer],
    items: IntArray,
    gains: FloatArray,
    *,
    within: bool = False,
) -> Judgments:
    """Build judgments from pairs in ascending order of row and item."""
    indptr = make_indptr(np.bincount(rows, minlength=query_ids.size))
    unreachable = np.zeros_like(query_ids)
    return Judgments(query_ids, gallery_ids, indptr, items, unreachable, without_self=within, gains=gains)


def rated_pairs(split: Split, kind: str) -> RatedPairs:
    """All rated pairs of a kind; within one modality in both orders."""
    table = split.ratings(kind)
    left, right, ratings = (np.asarray(table[name]) for name in ("left_id", "right_id", "rating"))
    if kind == "sits":
        return RatedPairs(right, left, ratings)
    return RatedPairs(np.concatenate([left, right]), np.concatenate([right, left]), np.concatenate([ratings, ratings]))
