"""Bounds over the unjudged: what labels could make of a number, if retrieved pairs had them that nobody judged.

- **Retrieved** are the pairs of a query with its top K for a metric at K, and with its top D for every other one (D is
  ``bounds_depth``, 50 unless told otherwise), in the order of the evaluation; of tied items known negatives stand
  first, then unjudged ones, then positives.
- **Judged** is a pair of which a source of the task's labels says anything: that it is positive, or that it is not, as
  a rating below the threshold does; and every pair with an altered caption, which was made to be wrong. COCO and ECCV
  Caption list positives alone; what ECCV Caption's annotators turned down was not published. All other pairs are
  unjudged. The usual number counts them as wrong.
- A **labelling** calls any of the retrieved unjudged pairs positive, and leaves all else as it is: other pairs of the
  gallery stay wrong. R of R-Precision and mAP@R grows by one for each pair that is called positive. Ranks are found
  anew under the tie rule: a positive stands below what it ties with, but for other positives. For nDCG such a pair has
  any rating up to 5, for Entail@K the label 1, for graded metrics any degree; all take the top as it was retrieved.
- ``low`` and ``high`` are the least and the largest value of the metric over all labellings. Labels of one query say
  nothing of another, so each query has its own extremes; mean and median rise with every query's value.
- ``expected`` is the mean of the metric where each of these pairs is positive with its own probability, independently.
  It is exact, for every metric, and there where probabilities of images with captions are at hand.

A metric never gets worse when a positive moves up. So of all labellings with n new positives that of the first n
unjudged items is the best, and that of the last n the worst: of U unjudged pairs 2 U labellings are looked at, not 2^U.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.judgments.plausible import PlausibleHits
from cxc_eccv.metrics.chances import add_event
from cxc_eccv.metrics.spec import HIGHEST_GAIN, Spec
from cxc_eccv.ranking.counts import gallery_sizes
from cxc_eccv.ranking.lists import FAR
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.types import Bounds, FloatArray, IntArray, Judgments, PositiveRanks, TopK, look_up_gains, positions_of
from cxc_eccv.types.altered import AlteredRanks, is_altered

__all__ = [
    "ProbabilitiesOf",
    "Retrieved",
    "TopOfKnown",
    "ask_probabilities",
    "bounds_of_matches",
    "bounds_of_ranks",
    "bounds_of_sums",
    "bounds_of_top",
    "bounds_of_tops",
    "expected_median",
]

ProbabilitiesOf = Callable[[IntArray, IntArray], Any]
"""(P,) image ids and (P,) caption ids to (P,) probabilities that the image with its captions entails the caption."""

Flags = NDArray[np.bool_]

QUERIES_AT_ONCE = 256
NUMBERS_AT_ONCE = 2**22
TINY = np.finfo(np.float64).tiny
"""The least degree of being positive: it counts, and adds nothing."""
CERTAIN = 4.5
"""A sum of n independent zeros and ones lies this many times sqrt(n) off its mean with a chance below 1e-17."""


@dataclass(frozen=True, slots=True, eq=False)
class Retrieved:
    """The top D of every query, and what is known of it.

    Attributes:
        ranks: of the known positives.
        ids: (Q, D) items, best first.
        unjudged: (Q, D) bool.
        above: (Q, D) known positives that score higher, of unjudged items.
        ends: (Q, D) place of the last retrieved item that scores the same.
        lowest: (Q, D) rank of the last item that scores the same and is no known positive, retrieved or not.
        depth: how many items count as retrieved for a metric without K; D may be more, for another metric at K.
    """

    ranks: PositiveRanks
    ids: IntArray
    unjudged: Flags
    above: IntArray
    ends: IntArray
    lowest: IntArray
    depth: int

    def within(self, k: int | None) -> Flags:
        """(Q, D) the unjudged items that a metric at K looks at, or any other one."""
        return self.unjudged & (np.arange(self.ids.shape[1]) < (k or self.depth))

    def matters(self, spec: Spec, parameters: Mapping[str, Any]) -> Flags:
        """(Q, D) the unjudged items whose labels can change a metric: if the best rank decides, those above it."""
        above = np.arange(self.ids.shape[1]) + 1 < self.ranks.best[:, None]
        return self.within(parameters.get("k")) & (above | (not spec.best_rank))

    def places(self, labels: Flags) -> IntArray:
        """(Q, D) rank of each item that the labels call positive; other entries mean nothing."""
        found = np.cumsum(labels, axis=1)
        return np.asarray(self.lowest - np.take_along_axis(found, self.ends, axis=1) + found)

    def best(self, labels: Flags) -> IntArray:
        """(Q,) rank of the best positive, as :attr:`PositiveRanks.best`."""
        far = self.ranks.n_gallery + 1
        first = np.where(labels, self.places(labels), far[:, None]).min(axis=1)
        return np.asarray(np.minimum(first, self.ranks.best))

    def with_best(self, best: IntArray) -> PositiveRanks:
        """Ranks with no other positive than the best one, of which :meth:`best` tells the rank."""
        found = best <= self.ranks.n_gallery
        return replace(self.ranks, indptr=np.append(0, np.cumsum(found)), ranks=best[found])

    def relabel(self, labels: Flags) -> PositiveRanks:
        """Ranks of all positives, known ones and those that the labels add."""
        known, added = np.repeat(np.arange(len(labels)), np.diff(self.ranks.indptr)), np.nonzero(labels)[0]
        rows, ranks = np.append(known, added), np.append(self.ranks.ranks, self.places(labels)[labels])
        counts = np.bincount(rows, minlength=len(labels))
        return replace(
            self.ranks,
            indptr=np.append(0, np.cumsum(counts)),
            ranks=ranks[np.lexsort((ranks, rows))],
            n_positives=self.ranks.n_positives + labels.sum(axis=1),
        )


class TopOfKnown:
    """Reads the top of every query, fold by fold where there are folds, beside all that is known of its pairs.

    Args:
        judged: the positives of every query.
        known: query ids and item ids of judged pairs, positive or not, those of other queries and items among them.
        depth: how many items; a smaller gallery has fewer.
    """

    def __init__(self, judged: Judgments, known: tuple[IntArray, IntArray], depth: int) -> None:
        self._n_queries = judged.query_ids.size
        folds = np.zeros(self._n_queries, int) if judged.query_folds is None else judged.query_folds
        item_folds = np.zeros(judged.gallery_ids.size, int) if judged.gallery_folds is None else judged.gallery_folds
        labelled = _add_known(judged, *known)
        self._rows = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
        self._labelled = [_cut_fold(labelled, folds == fold, item_folds == fold) for fold in np.unique(folds)]
        self.readers = [TopRows(own, depth) for own in self._labelled]
        self.depth = min(reader.depth for reader in self.readers)
        self.largest = int(min(gallery_sizes(judged)))

    def retrieved(self, ranks: PositiveRanks, depth: int | None = None) -> Retrieved:
        """What was read, beside the ranks of the positives; of it so many items, or all, for a metric without K."""
        ids, above, ends, lowest = np.zeros((4, self._n_queries, self.depth), dtype=np.int64)
        unjudged = np.zeros_like(ids, dtype=bool)
        for rows, labelled, reader in zip(self._rows, self._labelled, self.readers, strict=True):
            top = _shorten(reader.result, self.depth)
            gains, known = look_up_gains(top, labelled, self.depth, "bounds")
            ids[rows], above[rows] = top.ids, np.cumsum(gains > 0, axis=1)
            unjudged[rows] = ~known & ~is_altered(top.ids)
            ends[rows], lowest[rows] = _find_ties(top, gains > 0, _ranks_of_rows(ranks, rows))
        return Retrieved(ranks, ids, unjudged, above, ends, lowest, depth or self.depth)


def _add_known(judged: Judgments, queries: IntArray, items: IntArray) -> Judgments:
    """The positives with gain 1, and with gain 0 what else was judged."""
    size = judged.gallery_ids.size
    rows, asked = positions_of(queries, judged.query_ids)
    columns, ranked = positions_of(items, judged.gallery_ids)
    own = asked & ranked
    positive = judged.rows * size + judged.indices
    pairs = np.union1d(positive, rows[own] * size + columns[own])
    counts = np.bincount(pairs // size, minlength=judged.query_ids.size)
    return replace(
        judged,
        indptr=np.append(0, np.cumsum(counts)),
        indices=pairs % size,
        gains=np.isin(pairs, positive).astype(np.float64),
    )


def _cut_fold(labelled: Judgments, asked: Flags, ranked: Flags) -> Judgments:
    """The judgments of one fold alone; positives outside it cannot be reached."""
    inside = ranked[labelled.indices]
    kept = inside & asked[labelled.rows]
    lost = np.bincount(labelled.rows[~inside], minlength=asked.size)
    return Judgments(
        labelled.query_ids[asked],
        labelled.gallery_ids[ranked],
        np.append(0, np.cumsum(np.bincount(labelled.rows[kept], minlength=asked.size)[asked])),
        (np.cumsum(ranked) - 1)[labelled.indices[kept]],
        (labelled.unreachable + lost)[asked],
        labelled.without_self,
        gains=np.asarray(labelled.gains)[kept],
    )


def _shorten(top: TopK, depth: int) -> TopK:
    """The same where it is no deeper; in another fold fewer items may be ranked."""
    if top.depth == depth or top.scores is None or top.cut is None:
        return top
    tied = (top.scores[:, depth:] == top.scores[:, depth - 1 : depth]).sum(axis=1)
    beyond = np.where(top.scores[:, -1] == top.scores[:, depth - 1], top.cut, 0)
    return TopK(top.query_ids, top.ids[:, :depth], top.scores[:, :depth], tied + beyond)


def _ranks_of_rows(ranks: PositiveRanks, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Position among ``rows`` and rank of every known positive of these queries."""
    place = np.full(ranks.query_ids.size, -1)
    place[rows] = np.arange(rows.size)
    owners = place[np.repeat(np.arange(place.size), np.diff(ranks.indptr))]
    return owners[owners >= 0], ranks.ranks[owners >= 0]


def _find_ties(top: TopK, positive: Flags, ranks: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """``ends`` and ``lowest`` of :class:`Retrieved`."""
    if top.scores is None or top.cut is None:
        raise DataError("bounds: the top items come without scores, so that ties are not known")
    n_queries, depth = top.ids.shape
    changes, every = top.scores[:, 1:] != top.scores[:, :-1], np.arange(depth)
    starts = np.maximum.accumulate(np.where(np.insert(changes, 0, True, axis=1), every, 0), axis=1)
    lasts = np.where(np.insert(changes, depth - 1, True, axis=1), every, depth)
    ends = np.minimum.accumulate(lasts[:, ::-1], axis=1)[:, ::-1]
    in_sight = np.cumsum(positive, axis=1)
    counts: IntArray = np.take_along_axis(in_sight, ends, axis=1) - np.take_along_axis(
        in_sight - positive, starts, axis=1
    )
    # Positives stand last of what they tie with: those of a tie that goes on below the top may all be below it.
    owners, own_ranks = ranks
    below = (own_ranks > depth) & (own_ranks <= depth + top.cut[owners])
    others_below = top.cut - np.bincount(owners[below], minlength=n_queries)
    lowest = ends + 1 - counts + np.where(ends == depth - 1, others_below[:, None], 0)
    return ends, lowest


def bounds_of_ranks(
    spec: Spec, parameters: Mapping[str, Any], retrieved: Retrieved, probabilities: FloatArray | None = None
) -> Bounds:
    """Bounds of a metric of ranks.

    Args:
        spec: the metric.
        parameters: of the call.
        retrieved: the top, at least as deep as the metric looks.
        probabilities: (Q, D) of unjudged items, where they are known; other entries are not looked at.
    """
    score, unjudged = partial(spec.function, **parameters), retrieved.within(parameters.get("k"))
    if spec.best_rank:  # more positives never have a worse best one
        labellings = iter((np.zeros_like(unjudged), unjudged))
        values = (score(retrieved.with_best(retrieved.best(labels))) for labels in labellings)
    else:
        values = (score(retrieved.relabel(labels)) for labels in _first_and_last(unjudged))
    low, high = _extremes(values)
    expected = None if probabilities is None else _expect(spec, parameters, retrieved, unjudged, probabilities)
    return _make_bounds(spec, low, high, unjudged, parameters.get("k", retrieved.depth), expected)


def _expect(
    spec: Spec, parameters: Mapping[str, Any], retrieved: Retrieved, unjudged: Flags, probabilities: FloatArray
) -> float | None:
    """The expected number of a metric of ranks; None of one that does not say what it is made of."""
    chances = np.where(unjudged, probabilities, 0.0)
    if spec.term is not None:
        return float(_expect_sums(partial(spec.term, **parameters), retrieved, chances).mean())
    if not spec.best_rank:
        return None
    values, weights = _expect_best(partial(spec.function, **parameters), retrieved, chances)
    return expected_median(values, weights) if spec.aggregate == "median" else float((values * weights).sum(1).mean())


def bounds_of_top(
    spec: Spec,
    parameters: Mapping[str, Any],
    top: TopK,
    judgments: Judgments,
    probabilities: FloatArray | None = None,
    *,
    depth: int = 0,
) -> Bounds:
    """Bounds of a metric of the top K with gains; the arguments are those of :func:`bounds_of_ranks`.

    A metric of the top R has so many retrieved items as ``depth`` says, and a top that is deeper by the largest R.
    """
    k = parameters.get("k", depth)
    unjudged = ~look_up_gains(top, judgments, k, spec.name)[1]
    columns = positions_of(top.ids[:, :k], judgments.gallery_ids)[0]
    # A rating below the highest cannot make nDCG lower: where it stays as high, for ratings from one to another, so it
    # does for those between (a linear gain over a convex ideal). A small degree adds to R and to little else.
    degrees = (HIGHEST_GAIN[spec.gains], *([TINY] if spec.gains == "degrees" else []))
    low, high = _extremes(
        spec.function(top, _add_gains(judgments, columns, labels, gain), **parameters)
        for labels in _first_and_last(unjudged)
        for gain in degrees
    )
    if spec.highest is not None:
        high = np.maximum(high, spec.highest(top, judgments, **parameters))
    expected = None
    if probabilities is not None and spec.expected is not None:
        chances = np.where(unjudged, probabilities[:, : unjudged.shape[1]], 0.0)
        expected = float(spec.expected(top, judgments, **parameters, probabilities=chances).mean())
    return _make_bounds(spec, low, high, unjudged, k, expected)


def bounds_of_matches(spec: Spec, hits: PlausibleHits) -> Bounds:
    """Bounds of a metric of plausible matches: categories decide every pair, so that the value itself is both.

    Example:
        >>> from cxc_eccv.metrics.pmrp_at_50 import SPEC
        >>> hits = PlausibleHits(np.array([5]), ((0, 50),), np.array([[60]]), np.array([[20]]), np.array([0]))
        >>> bounds_of_matches(SPEC, hits)
        Bounds(low=0.4, high=0.4, unjudged=0, retrieved=50, expected=0.4)
    """
    value = spec.average(spec.function(hits))
    depths = [
        np.minimum(hits.n_matches[:, hits.looks.index(look)], FAR if look[1] is None else look[1])
        for look in spec.looks
    ]
    return Bounds(value, value, 0, int(np.max(depths, axis=0).sum()), value)


def bounds_of_tops(spec: Spec, altered: AlteredRanks) -> Bounds:
    """Bounds of a metric of the first item alone, of which no label says whether it is altered: the value is both."""
    value = spec.average(spec.function(altered))
    return Bounds(value, value, 0, altered.top_altered.size, value)


def bounds_of_sums(
    function: Callable[[FloatArray], FloatArray], directions: Sequence[Sequence[Bounds | None]]
) -> Bounds | None:
    """Bounds of a sum of other metrics' values, and the pairs of that which looks deepest in each direction.

    None where one of the others has none.

    Example:
        >>> half = Bounds(0.25, 0.75, unjudged=1, retrieved=2)
        >>> bounds_of_sums(lambda values: 100 * values.sum(), [[half, half], [half]])
        Bounds(low=75.0, high=225.0, unjudged=2, retrieved=4, expected=None)
    """
    if any(own is None for given in directions for own in given):
        return None
    inputs = [own for given in directions for own in given if own is not None]
    low, high = (float(function(np.array([getattr(own, name) for own in inputs]))) for name in ("low", "high"))
    expected = [own.expected for own in inputs if own.expected is not None]
    deepest = [max(filter(None, given), key=lambda own: own.retrieved) for given in directions]
    return Bounds(
        low,
        high,
        sum(own.unjudged for own in deepest),
        sum(own.retrieved for own in deepest),
        float(function(np.array(expected))) if len(expected) == len(inputs) else None,
    )


def _make_bounds(
    spec: Spec, low: FloatArray, high: FloatArray, unjudged: Flags, k: int, expected: float | None
) -> Bounds:
    retrieved = len(unjudged) * min(unjudged.shape[1], k)
    return Bounds(spec.average(low), spec.average(high), int(unjudged.sum()), retrieved, expected)


def _extremes(values: Iterator[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """(Q,) least and largest values."""
    low = high = next(values)
    for own in values:
        low, high = np.minimum(low, own), np.maximum(high, own)
    return low, high


def _first_and_last(unjudged: Flags) -> Iterator[Flags]:
    """Labels of the first n unjudged items of every query, and of the last n, for each n from 0."""
    order = np.cumsum(unjudged, axis=1)
    totals = order[:, -1:]
    for count in range(int(totals.max()) + 1):
        yield unjudged & (order <= count)
        yield unjudged & (order > totals - count)


def _add_gains(judgments: Judgments, columns: IntArray, labels: Flags, gain: float) -> Judgments:
    """The judgments, and in them the labelled items of the top with their gain."""
    size, added = judgments.gallery_ids.size, np.nonzero(labels)[0] * judgments.gallery_ids.size + columns[labels]
    pairs = np.append(judgments.rows * size + judgments.indices, added)
    gains = np.append(np.asarray(judgments.gains), np.full(added.size, gain))
    order = np.argsort(pairs)
    counts = np.bincount(pairs // size, minlength=judgments.query_ids.size)
    return replace(judgments, indptr=np.append(0, np.cumsum(counts)), indices=(pairs % size)[order], gains=gains[order])


def _expect_best(
    score: Callable[[PositiveRanks], FloatArray], retrieved: Retrieved, chances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(Q, M) values of a metric of the best rank alone, and the (Q, M) chances that the labels give these.

    The best positive is the first of the labelled items of the first tie that has any: the more these are, the higher
    it stands.
    """
    n_queries, depth = chances.shape
    known, alive = retrieved.ranks.best, np.ones(n_queries)
    most = 1 + int((retrieved.ends - np.arange(depth)).max())
    none = np.zeros((n_queries, most + 1))
    none[:, 0] = 1
    in_tie, columns, weights = none, [known], []
    for place in range(depth):
        in_tie = add_event(in_tie, chances[:, place])
        ends = retrieved.ends[:, place] == place
        for count in range(1, most + 1):
            weight = np.where(ends, alive * in_tie[:, count], 0.0)
            if weight.any():
                columns.append(np.where(weight > 0, np.minimum(known, retrieved.lowest[:, place] - count + 1), known))
                weights.append(weight)
        alive = np.where(ends, alive * in_tie[:, 0], alive)
        in_tie = np.where(ends[:, None], none, in_tie)
    values = [score(retrieved.with_best(best)) for best in columns]
    return np.stack(values, axis=1), np.stack([alive, *weights], axis=1)


def expected_median(values: FloatArray, weights: FloatArray) -> float:
    """Mean of the median over queries that have, independently, one of (Q, M) values with (Q, M) chances each.

    The mean of an order statistic is a sum over thresholds v of the chance that too few queries are at most v.

    Example:
        >>> expected_median(np.array([[1.0, 3.0], [2.0, 2.0], [5.0, 5.0]]), np.array([[0.5, 0.5], [1, 0], [1, 0]]))
        2.5
    """
    n_queries = len(values)
    order = np.argsort(values, axis=None, kind="stable")
    owners, ordered, ordered_weights = order // values.shape[1], values.ravel()[order], weights.ravel()[order]
    levels, first = np.unique(ordered, return_index=True)
    ends = np.append(first[1:], ordered.size)
    mean_counts, reach = np.cumsum(ordered_weights)[ends - 1], CERTAIN * np.sqrt(n_queries)
    middle = np.array([(n_queries - 1) // 2, n_queries // 2])  # so many queries stand before these two
    too_few = np.where(mean_counts[:, None] < middle, 1.0, 0.0)
    for level in np.flatnonzero((np.abs(mean_counts[:, None] - middle) < reach + 1).any(axis=1)):
        at_most = np.bincount(owners[: ends[level]], weights=ordered_weights[: ends[level]], minlength=n_queries)
        cumulated = np.cumsum(_count_many(np.clip(at_most, 0, 1)))
        too_few[level] = cumulated[middle]
    return float((levels[0] + np.diff(levels) @ too_few[:-1]).mean())


def _count_many(probabilities: FloatArray) -> FloatArray:
    """As :func:`cxc_eccv.metrics.chances.count_chances` of (M,) events, by products of polynomials in pairs."""
    size = 1 << max(0, int(probabilities.size - 1).bit_length())
    certain = np.zeros(size)
    certain[: probabilities.size] = probabilities
    chances = np.stack([1 - certain, certain], axis=1)
    while len(chances) > 1:
        width = 2 * chances.shape[1]
        parts = np.fft.rfft(chances, width, axis=1)
        chances = np.fft.irfft(parts[::2] * parts[1::2], width, axis=1)[:, : width - 1]
    return np.clip(chances[0, : probabilities.size + 1], 0, 1)


Term = Callable[[IntArray, IntArray, IntArray], FloatArray]


def _expect_sums(term: Term, retrieved: Retrieved, chances: FloatArray) -> FloatArray:
    """(Q,) expected values of a metric that is a sum over positives of ``Spec.term``."""
    return np.concatenate(
        [_expect_some_sums(term, retrieved, chances, start) for start in range(0, len(chances), QUERIES_AT_ONCE)]
    )


def _expect_some_sums(term: Term, retrieved: Retrieved, chances: FloatArray, start: int) -> FloatArray:
    """The same of the queries from ``start`` on, not too many.

    What a positive adds depends on how many items are labelled above it, below it in its own tie, and below that.
    """
    rows = slice(start, start + QUERIES_AT_ONCE)
    own, ends, ranks, total = chances[rows], retrieved.ends[rows], retrieved.ranks, retrieved.ranks.n_positives[rows]
    n_queries, depth = own.shape
    above, tied, below = _chances_around(own, ends)

    # Known positives, which stand below all that ties with them.
    counts = np.diff(ranks.indptr)[rows]
    owners = np.repeat(np.arange(n_queries), counts)
    known = ranks.ranks[ranks.indptr[start] :][: owners.size]
    order = np.arange(known.size) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    places = np.minimum(known - 1, depth)
    none_tied = np.ones((owners.size, 1))
    around = above[places, owners], none_tied, below[places, owners]
    sums = _sum_terms(term, order, known, total[owners], around)
    values = np.bincount(owners, weights=sums, minlength=n_queries)

    # Those that labels add, each with its own chance.
    owners, places = np.nonzero(own > 0)
    order, lowest = retrieved.above[rows][owners, places] + 1, retrieved.lowest[rows][owners, places]
    around = above[places, owners], tied[places, owners], below[ends[owners, places] + 1, owners]
    sums = _sum_terms(term, order, lowest, total[owners] + 1, around)
    return np.asarray(values + np.bincount(owners, weights=sums * own[owners, places], minlength=n_queries))


def _chances_around(chances: FloatArray, ends: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Chances of so many labels: (D + 1, Q, N) above a place, (D, Q, A) below it in its tie, (D + 1, Q, N) from it."""
    n_queries, depth = chances.shape
    none = np.eye(1, depth + 1).repeat(n_queries, axis=0)
    above, tied, below = [none], [none], [none]
    for place in range(depth):
        above.append(add_event(above[-1], chances[:, place]))
    for place in reversed(range(depth)):
        below.insert(0, add_event(below[0], chances[:, place]))
        if place:
            alone = ends[:, place - 1, None] == place - 1
            tied.insert(0, np.where(alone, none, add_event(tied[0], chances[:, place])))
    widest = 1 + int((ends - np.arange(depth)).max())
    return np.stack(above), np.stack(tied)[..., :widest], np.stack(below)


def _sum_terms(
    term: Term, order: IntArray, ranks: IntArray, n_positives: IntArray, chances: tuple[FloatArray, ...]
) -> FloatArray:
    """(P,) expected terms of P positives, from the (P, N), (P, A) and (P, M) chances of so many labels.

    A label above makes a positive one more in order, one below it in its tie lifts it by a rank, and each adds to R.
    """
    shape = tuple(part.shape[1] for part in chances)
    above, tied, below = np.ogrid[tuple(map(slice, shape))]
    sums, step = np.empty(order.size), max(1, NUMBERS_AT_ONCE // int(np.prod(shape)))
    for start in range(0, order.size, step):
        some = slice(start, start + step)
        places, standing, total = (own[some, None, None, None] for own in (order, ranks, n_positives))
        terms = term(places + above, np.maximum(standing - tied, 1), total + (above + tied + below))
        terms = (terms @ chances[2][some, None, :, None])[..., 0]
        sums[some] = np.einsum("pna,pn,pa->p", terms, chances[0][some], chances[1][some])
    return sums


def ask_probabilities(
    probabilities: ProbabilitiesOf, direction: str, query_ids: IntArray, ids: IntArray, asked: Flags
) -> FloatArray:
    """(Q, D) probabilities of the items that are asked about, 0 of others, checked."""
    rows, places = np.nonzero(asked)
    queries, items = query_ids[rows], ids[rows, places]
    images, captions = (queries, items) if direction == "i2t" else (items, queries)
    found = np.zeros(asked.shape)
    given = np.asarray(probabilities(images, captions)) if rows.size else np.empty(0)
    if given.shape != rows.shape or given.dtype.kind not in "biuf" or not ((given >= 0) & (given <= 1)).all():
        raise DataError(
            f"probabilities: {given.dtype} of shape {given.shape} for {rows.size} pairs of {direction}; need a number "
            "from 0 to 1 for each"
        )
    found[rows, places] = given
    return found
