"""Sets of labels by name: their positives, and their precision and recall against people's judgments.

A set is one or more sources, such as ``coco,cxc``; a pair is positive if any of them says so. ``plausible_N`` are
plausible matches, of images that differ in at most N categories.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.judgments.evidence.source import Thresholds, gather, item_ids, list_sources
from cxc_eccv.judgments.merging import merge
from cxc_eccv.judgments.plausible import category_matches
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.studies.annotation.proposing import list_proposals
from cxc_eccv.studies.asking.questions import PAIR
from cxc_eccv.types import FloatArray, IntArray, find_positions

BoolArray = NDArray[np.bool_]

SIDES = ["query", "item"]

PLAUSIBLE = re.compile(r"plausible_(0|[1-9][0-9]?)")


@dataclass(frozen=True, slots=True, eq=False)
class Positives:
    """The positives of a set of labels in one direction."""

    query_ids: IntArray  # (Q,) all queries of the direction
    gallery_ids: IntArray  # (N,) all items of the direction
    listed: IntArray  # ascending numbers of pairs of searched queries: index of the query * N + index of the item
    outside: IntArray  # (Q,) number of listed positives outside the gallery, which count towards R
    classes: tuple[IntArray, IntArray]  # (Q,) and (N,) class of categories, -1 for none
    alike: BoolArray  # (C, C) whether two classes are a plausible match

    def holds(self, queries: IntArray, items: IntArray) -> BoolArray:
        """(P,) whether pairs of ids are positive; an item outside the gallery is not."""
        rows, asked = find_positions(queries, self.query_ids)
        columns, there = find_positions(items, self.gallery_ids)
        inside = np.isin(rows * self.gallery_ids.size + columns, self.listed) | self._match(rows, columns)
        return np.asarray(inside & asked & there)

    def sizes(self) -> IntArray:
        """(Q,) R of every query."""
        rows, columns = np.divmod(self.listed, self.gallery_ids.size)
        of_queries, of_items = self.classes
        listed = np.bincount(rows[~self._match(rows, columns)], minlength=self.query_ids.size)
        members = np.bincount(of_items[of_items >= 0], minlength=len(self.alike))
        matches = np.where(of_queries >= 0, (self.alike @ members)[of_queries], 0)
        return np.asarray(listed + matches + self.outside)

    def _match(self, rows: IntArray, columns: IntArray) -> BoolArray:
        left = self.classes[0][rows]
        other = self.classes[1][columns]
        return np.asarray((left >= 0) & (other >= 0) & self.alike[left, other])


def check_sets(names: Sequence[str], library: Library) -> None:
    """Raise for names that are neither a source of labels nor plausible matches, and for repeated names."""
    sources = list_sources(library)
    if not names:
        raise InvalidOption(f"a set of labels has no source: choose among {', '.join(sources)}, plausible_0")
    for name in names:
        if list(names).count(name) > 1:
            raise InvalidOption(f"the set of labels {','.join(names)} has {name} twice: give it once")
        if name not in sources and not PLAUSIBLE.fullmatch(name):
            raise UnknownName("source of labels", name, [*sources, "plausible_0"])


def find_positives(split: Split, direction: str, names: Sequence[str]) -> Positives | None:
    """The positives of a set of labels; None if none of its sources has labels of the split."""
    check_sets(names, split.library)
    sources = [name for name in names if not PLAUSIBLE.fullmatch(name)]
    zetas = [int(name.removeprefix("plausible_")) for name in names if name not in sources]
    query_ids, gallery_ids = item_ids(split, direction)
    listed = np.empty(0, np.int64)
    outside = np.zeros(query_ids.size, np.int64)
    if sources:
        pairs = merge(split, direction, sources=sources)
        if not (pairs.sources or zetas):
            return None
        kept = pairs.positive & pairs.searched[pairs.queries]
        listed = (pairs.queries * gallery_ids.size + pairs.items)[kept]
        if "eccv" in pairs.sources:
            table = split.eccv("eccv", direction)
            lost = ~find_positions(np.asarray(table["item_id"]), gallery_ids)[1]
            rows = find_positions(np.asarray(table["query_id"])[lost], query_ids)[0]
            outside = np.bincount(rows, minlength=query_ids.size)
    classes = (np.full(query_ids.size, -1), np.full(gallery_ids.size, -1))
    alike = np.zeros((1, 1), bool)
    if zetas:
        matches = category_matches(split, direction)
        (rows, are_queries), (columns, are_items) = (
            find_positions(query_ids, matches.query_ids),
            find_positions(gallery_ids, matches.gallery_ids),
        )
        classes = (
            np.where(are_queries, matches.query_classes[rows], -1),
            np.where(are_items, matches.gallery_classes[columns], -1),
        )
        alike = matches.distances <= max(zetas)
    return Positives(
        query_ids=query_ids, gallery_ids=gallery_ids, listed=listed, outside=outside, classes=classes, alike=alike
    )


def find_verified(split: Split, direction: str, source: str, proposals: pa.Table | None = None) -> pd.DataFrame | None:
    """The labels of a source, as people's judgments, a row per pair; None if it has none of the split.

    Returns:
        A frame of ``query`` and ``item``, ``positive``, ``gain`` (graded if the labels are; 0 for negatives) and
        ``asked``: whether people were asked about the pair. Other pairs count for recall only.
    """
    file = split.labels(source) if source in split.library.label_names else None
    if file is not None:
        verified = name_sides(file.table.select([*PAIR, "positive", "gain"]).to_pandas(), direction)
        verified["asked"] = True
    else:
        judged = gather(split, direction, source, Thresholds())
        if judged is None:
            return None
        verified = pd.DataFrame({"query": judged.queries, "item": judged.items, "positive": judged.positive})
        # Of other queries the source knows some matches, which are no base for a recall.
        verified = verified[np.isin(judged.queries, judged.searched)]
        verified = verified.assign(gain=1.0, asked=not list_sources(split.library)[source].lists_positives)
    verified["gain"] = verified["gain"].where(verified["positive"], 0.0)
    return verified if proposals is None else _add_known(verified, proposals, direction)


def _add_known(verified: pd.DataFrame, proposals: pa.Table, direction: str) -> pd.DataFrame:
    """Verified pairs and, after them, proposed pairs that were known to match, which nobody was asked about."""
    known = name_sides(proposals.select(PAIR).to_pandas(), direction)
    known = known[pc.list_value_length(proposals["known"]).to_numpy() > 0]
    known = known.assign(positive=True, gain=1.0, asked=False).sort_values(SIDES)
    both = pd.concat([verified, known]).drop_duplicates(SIDES)  # the first: people's answers take precedence
    return both[both["query"].isin(find_searched(proposals, direction))]


def find_searched(proposals: pa.Table, direction: str) -> IntArray:
    """Ids of the queries for which some model proposed items in this direction."""
    listed = name_sides(list_proposals(proposals), direction)
    return np.unique(listed.loc[listed["direction"] == direction, "query"])


def name_sides(pairs: pd.DataFrame, direction: str) -> pd.DataFrame:
    """Pairs of image and caption as pairs of ``query`` and ``item``."""
    names = PAIR if direction == "i2t" else PAIR[::-1]
    return pairs.rename(columns=dict(zip(names, SIDES, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class LabelQuality:
    """Precision and recall of labels by query."""

    precision_ids: IntArray  # queries with a labelled positive that people were asked about
    precision: FloatArray  # share of these that people verified
    recall_ids: IntArray  # queries with a labelled positive among the judged pairs, and a verified one
    recall: FloatArray  # share of the verified positives that are labelled
    n_unlabelled: int  # queries left out of both: none of their labelled positives was judged
    n_unverified: int  # queries left out of recall only: they have no verified positive


def measure_labels(queries: ArrayLike, labelled: ArrayLike, verified: ArrayLike, asked: ArrayLike) -> LabelQuality:
    r"""Precision and recall of labels against what people verified.

    With :math:`r_i` the labelled positives of query i, :math:`t_i` the verified ones, :math:`h_i` all that people
    saw, and :math:`r'_i = r_i \cap h_i`:

    .. math:: \mathrm{Prec} = \frac{1}{N} \sum_i \frac{|r'_i \cap t_i|}{|r'_i|} \qquad
              \mathrm{Recall} = \frac{1}{N} \sum_i 1 - \frac{|t_i \setminus r'_i|}{|t_i|}

    As in the paper, a query without :math:`r'_i` has no precision and is left out of both. One without :math:`t_i` has
    no recall; it stays in precision, where all of its labels are wrong. The paper has one N, since each of its queries
    has a verified positive.

    Args:
        queries: (P,) query of each judged pair; every pair once.
        labelled: (P,) whether the labels call it positive.
        verified: (P,) whether it is positive.
        asked: (P,) whether people were asked about it. A positive pair that was not asked about counts for recall only.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.3, Table 2.

    Example:
        >>> quality = measure_labels([1, 1, 1], [True, True, False], [True, False, True], [True, True, True])
        >>> quality.precision.tolist(), quality.recall.tolist()
        ([0.5], [0.5])
    """
    ids = np.asarray(queries)
    labels, truth, seen = (np.asarray(values) for values in (labelled, verified, asked))
    distinct, rows = np.unique(ids, return_inverse=True)

    def count(which: BoolArray) -> FloatArray:
        return np.bincount(rows[which], minlength=distinct.size).astype(np.float64)

    judged = count(labels & seen)
    known = count(labels)
    true = count(truth)
    precise = judged > 0
    complete = (known > 0) & (true > 0)
    return LabelQuality(
        precision_ids=distinct[precise],
        precision=count(labels & truth & seen)[precise] / judged[precise],
        recall_ids=distinct[complete],
        recall=count(labels & truth)[complete] / true[complete],
        n_unlabelled=int((known == 0).sum()),
        n_unverified=int(((known > 0) & (true == 0)).sum()),
    )


@dataclass(frozen=True, slots=True)
class Multiplicity:
    """The number of positives of labels."""

    n_queries: int  # queries with a positive
    n_without: int  # counted queries without a positive
    n_positives: int  # sum of R over all queries
    mean: float  # of R over the queries with a positive
    quartiles: tuple[float, float, float]  # of R over the queries with a positive
    largest: int


def count_positives(sizes: ArrayLike) -> Multiplicity:
    """Statistics of the number of positives (Table 3), from R of each counted query, 0 for no positive."""
    every = np.asarray(sizes)
    counts = every[every > 0]
    low, middle, high = np.quantile(counts, [0.25, 0.5, 0.75]).tolist()
    return Multiplicity(
        n_queries=counts.size,
        n_without=every.size - counts.size,
        n_positives=int(counts.sum()),
        mean=float(counts.mean()),
        quartiles=(low, middle, high),
        largest=int(counts.max()),
    )
