"""What each source says of a pair: one Evidence per source and direction, entailment hypotheses among them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import EntailmentPairs, KarpathySplit
from cxc_eccv.types import DIRECTIONS, FloatArray, IntArray, positions_of

__all__ = ["SOURCES", "Evidence", "Matched", "Thresholds", "gather", "item_ids", "match_hypotheses"]

SOURCES = ("coco", "cxc", "eccv", "entailment")
"""Every source of judgments, from the oldest and most general to the latest and most specific."""

KIND = {"i2t": "sits", "t2i": "sits", "t2t": "sts", "i2i": "sis"}
"""Direction to the CxC ratings that judge it."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Lowest CxC rating that makes a pair positive; the paper's values.

    Raises:
        InvalidOption: a threshold outside (0, 5].
    """

    sts: float = 3.0
    sis: float = 2.5
    sits: float = 3.0

    def __post_init__(self) -> None:
        for name in ("sts", "sis", "sits"):
            if not 0 < getattr(self, name) <= 5:
                raise InvalidOption(
                    f"threshold {name}={getattr(self, name)}: ratings run from 0 to 5, choose in (0, 5]"
                )


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What one source says of ordered pairs.

    Attributes:
        source: one of ``SOURCES``.
        queries, items: (P,) ids.
        positive: (P,) bool, the source's verdict.
        ratings: (P,) float64, or NaN where the source does not grade.
        reverse: (P,) the rating of the same pair given in the other order (SIS), or NaN.
        left_out: rule to the number of raw judgments that it left out.
    """

    source: str
    queries: IntArray
    items: IntArray
    positive: NDArray[np.bool_]
    ratings: FloatArray
    reverse: FloatArray
    left_out: dict[str, int]


def item_ids(library: Library, split: str, direction: str) -> tuple[IntArray, IntArray]:
    """Query ids and gallery ids of a direction, in Karpathy order."""
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    content = library.karpathy(split)
    ids = {"i": content.image_ids, "t": content.caption_ids}
    return ids[direction[0]], ids[direction[2]]


def gather(library: Library, split: str, direction: str, source: str, thresholds: Thresholds) -> Evidence | None:
    """All that ``source`` says in this direction, or None where it judges nothing of the split."""
    match source:
        case "coco":
            return _coco(library.karpathy(split), direction)
        case "cxc" if split in ("validation", "test"):
            return _cxc(library, split, direction, thresholds)
        case "eccv" if split == "test" and direction in ("i2t", "t2i"):
            return _eccv(library, direction)
        case "entailment" if direction in ("i2t", "t2i"):
            return _entailment(library, split, direction)
    return None


def _evidence(
    source: str,
    queries: IntArray,
    items: IntArray,
    positive: NDArray[np.bool_] | None = None,
    ratings: FloatArray | None = None,
    reverse: FloatArray | None = None,
    left_out: dict[str, int] | None = None,
) -> Evidence:
    none = np.full(queries.size, np.nan)
    return Evidence(
        source,
        queries,
        items,
        np.ones(queries.size, dtype=bool) if positive is None else positive,
        none if ratings is None else ratings,
        none if reverse is None else reverse,
        left_out or {},
    )


def _coco(content: KarpathySplit, direction: str) -> Evidence | None:
    captions, images = content.caption_ids, content.caption_image_ids
    if direction == "i2t":
        return _evidence("coco", images, captions)
    if direction == "t2i":
        return _evidence("coco", captions, images)
    if direction == "t2t":
        left, right = co_captions(images)
        return _evidence("coco", captions[left], captions[right])
    return None


def co_captions(groups: IntArray) -> tuple[IntArray, IntArray]:
    """Positions of all ordered pairs of different members of the same group.

    Example:
        >>> left, right = co_captions(np.array([7, 9, 7]))
        >>> left.tolist(), right.tolist()
        ([0, 2], [2, 0])
    """
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    per_member = np.repeat(sizes, sizes)
    left = np.repeat(np.arange(groups.size), per_member)
    within = np.arange(left.size) - np.repeat(np.cumsum(per_member) - per_member, per_member)
    right = np.repeat(np.repeat(starts, sizes), per_member) + within
    keep = left != right
    return order[left[keep]], order[right[keep]]


def _cxc(library: Library, split: str, direction: str, thresholds: Thresholds) -> Evidence:
    kind = KIND[direction]
    table = library.cxc(kind, split)
    left, right, ratings = (np.asarray(table[name]) for name in ("left_id", "right_id", "rating"))
    threshold = getattr(thresholds, kind)
    if direction == "i2t":  # SITS rows are (caption, image)
        return _evidence("cxc", right, left, ratings >= threshold, ratings)
    if direction == "t2i":
        return _evidence("cxc", left, right, ratings >= threshold, ratings)
    return _both_orders(left, right, ratings, threshold)


def _both_orders(left: IntArray, right: IntArray, ratings: FloatArray, threshold: float) -> Evidence:
    """An unordered pair judges both of its orders; positive if either rating reaches the threshold."""
    ids = np.unique(np.concatenate([left, right]))
    forward_key = np.searchsorted(ids, left) * ids.size + np.searchsorted(ids, right)
    reverse_key = np.searchsorted(ids, right) * ids.size + np.searchsorted(ids, left)
    keys = np.unique(np.concatenate([forward_key, reverse_key]))
    forward, reverse = np.full(keys.size, np.nan), np.full(keys.size, np.nan)
    forward[np.searchsorted(keys, forward_key)] = ratings
    reverse[np.searchsorted(keys, reverse_key)] = ratings
    positive = np.fmax(forward, reverse) >= threshold
    return _evidence("cxc", ids[keys // ids.size], ids[keys % ids.size], positive, forward, reverse)


def _eccv(library: Library, direction: str) -> Evidence:
    table = library.eccv("eccv", direction)
    queries, items = np.asarray(table["query_id"]), np.asarray(table["item_id"])
    reachable = positions_of(items, item_ids(library, "test", direction)[1])[1]
    left_out = {}
    if not reachable.all():
        left_out["ECCV Caption positives outside the split's captions"] = int((~reachable).sum())
    return _evidence("eccv", queries[reachable], items[reachable], left_out=left_out)


def _entailment(library: Library, split: str, direction: str) -> Evidence | None:
    pairs = library.entailment(split)
    if pairs is None:
        return None
    matched = match_hypotheses(library.karpathy(split), pairs)
    images, captions = matched.image_ids, matched.caption_ids
    labels = np.asarray(pairs.table["label"])[matched.rows] == 1
    queries, items = (images, captions) if direction == "i2t" else (captions, images)
    return _evidence("entailment", queries, items, labels, left_out=matched.left_out)


UNKNOWN = "entailment pairs whose image or hypothesis is not in the split"
REPEATED = "entailment labels of an (image, caption) pair that an earlier row labelled"


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """Entailment pairs as (image, caption) pairs.

    Attributes:
        image_ids, caption_ids: (P,) every pair once.
        rows: (P,) the row of the raw table that labels the pair.
        left_out: rule to the number of labels it left out.
    """

    image_ids: IntArray
    caption_ids: IntArray
    rows: IntArray
    left_out: dict[str, int]


def match_hypotheses(content: KarpathySplit, pairs: EntailmentPairs) -> Matched:
    """Find the ids of every labelled pair.

    A row without ``image_id`` is matched by file name; one without ``hypothesis_id`` by the hypothesis' text, to
    every caption of that text (entailment depends on the text alone).
    """
    image_ids = content.image_ids.tolist()
    by_name = dict(zip(content.images["file_name"].to_pylist(), image_ids, strict=True))
    by_text: dict[str, list[int]] = {}
    for caption_id, text in zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True):
        by_text.setdefault(text.strip(), []).append(caption_id)
    images, captions = set(image_ids), set(content.caption_ids.tolist())
    left_out = Counter(pairs.left_out)
    rows: dict[tuple[int, int], int] = {}
    for row, pair in enumerate(pairs.table.to_pylist()):
        image = by_name.get(Path(pair["image"]).name, -1) if pair["image_id"] is None else pair["image_id"]
        given = pair["hypothesis_id"]
        named = by_text.get(pair["hypothesis"].strip(), []) if given is None else [given]
        found = [caption for caption in named if caption in captions and image in images]
        left_out[UNKNOWN] += not found
        for caption in found:
            left_out[REPEATED] += rows.setdefault((image, caption), row) != row
    columns = np.array([(*pair, row) for pair, row in rows.items()], dtype=np.int64).reshape(-1, 3)
    return Matched(columns[:, 0], columns[:, 1], columns[:, 2], {rule: n for rule, n in left_out.items() if n})
