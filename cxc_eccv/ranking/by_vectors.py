"""Ranks and similarities from vectors: chooses how to count each direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.kernels import pair_products
from cxc_eccv.ranking.counts import Counts, MergedJudgments
from cxc_eccv.ranking.device import full_precision, torch_on
from cxc_eccv.ranking.device_product import DeviceProduct
from cxc_eccv.ranking.prepare import Vectors, refuse_extremes, refuse_zero_vectors
from cxc_eccv.ranking.ranked import ByCounts, Readers, count_and_read, find_rows
from cxc_eccv.ranking.readers import RowReader, can_read_columns
from cxc_eccv.ranking.scores import Layout, Options, Product
from cxc_eccv.ranking.shared_product import count_both, count_within
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import CROSS_MODAL, FloatArray, IntArray, RatedPairs, find_sides


class ByVectors(ByCounts):
    """Ranks of vectors by their cosines or dot products."""

    run: EmbeddingsRun

    def __init__(self, run: EmbeddingsRun, options: Options) -> None:
        chooser = "the caller" if options.similarity else "the run" if run.similarity else "default"
        self.similarity = run.choose_similarity(options.similarity)
        self.scoring = {"similarity": self.similarity, "similarity_from": chooser}
        self.run, self._options, self._vectors = run, options, Vectors(run, self.similarity)

    def count(self, merged: Mapping[str, MergedJudgments], readers: Readers) -> dict[str, Counts]:
        """Counts of every direction, with one product for two directions or half a product for one where possible."""
        counts: dict[str, Counts] = {}
        if self._options.device is None:
            if shared := _put_rows_first({name: merged[name] for name in CROSS_MODAL if name in merged}, readers):
                counts |= count_both(self._vectors, shared, self._options, readers)
            for direction, judged in merged.items():
                if direction not in CROSS_MODAL and not readers.get(direction):
                    counts |= count_within(self._vectors, direction, judged, self._options)
        for direction, judged in merged.items():
            if direction not in counts:
                along = readers.get(direction, ())
                counts[direction] = count_by_row(self._vectors, direction, judged, self._options, along)
        return counts

    def compare(self, pairs: RatedPairs, direction: str) -> FloatArray:
        """(P,) similarities, summed in float64."""
        return compare_pairs(self.run, pairs, direction, self.similarity)


def _put_rows_first(merged: dict[str, MergedJudgments], readers: Readers) -> dict[str, MergedJudgments]:
    """The cross-modal directions if they can share a product, first the one whose queries are rows."""
    deep = [direction for direction in merged if not all(map(can_read_columns, readers.get(direction, ())))]
    if len(merged) < len(CROSS_MODAL) or len(deep) == len(CROSS_MODAL):
        return {}
    first = deep[0] if deep else max(merged, key=lambda direction: merged[direction].query_ids.size)
    return dict(sorted(merged.items(), key=lambda item: item[0] != first))


def count_by_row(
    vectors: Vectors,
    direction: str,
    merged: MergedJudgments,
    options: Options,
    readers: Sequence[RowReader],
) -> Counts:
    """Count one direction row by row, on the CPU or a torch device; readers read on the CPU."""
    query_side, gallery_side = find_sides(direction)
    layout = Layout.of(merged.segments)
    rows = vectors.prepare(query_side, merged.query_ids)
    columns = vectors.prepare(gallery_side, merged.gallery_ids, layout)
    refuse_extremes(vectors.similarity, rows, columns, merged.query_ids, layout.spread(merged.gallery_ids))
    self_columns = merged.self_columns(layout.column)
    if options.device is None:
        scores = Product(rows, columns, layout.padding, self_columns=self_columns)
        return count_and_read(scores, merged, layout, readers, options, direction)
    torch = torch_on(options.device)
    with full_precision(torch, options.device):
        product = DeviceProduct(torch, options, rows, columns, layout.padding, self_columns)
        return count_and_read(product, merged, layout, readers, options, direction)


def compare_pairs(run: EmbeddingsRun, pairs: RatedPairs, direction: str, similarity: str) -> FloatArray:
    """(P,) similarities of pairs, summed in float64."""
    query_side, item_side = find_sides(direction)
    if query_side == item_side:  # the smaller row first, so that both orders are the same pair
        both = np.split(_find_repeated(np.concatenate([pairs.query_ids, pairs.item_ids]), run, query_side), 2)
        queries, items = np.minimum(*both), np.maximum(*both)
    else:
        queries = _find_repeated(pairs.query_ids, run, query_side)
        items = _find_repeated(pairs.item_ids, run, item_side)
    left, right = getattr(run, query_side).vectors, getattr(run, item_side).vectors
    if similarity == "cosine":
        for side, vectors, rows in ((query_side, left, queries), (item_side, right, items)):
            named = np.unique(rows)
            zero = named[~vectors[named].any(axis=1)]
            refuse_zero_vectors(run.ids(side)[zero], named.size, side, run.path or "run")
    distinct, occurrence = np.unique(queries * len(right) + items, return_inverse=True)
    queries, items = np.divmod(distinct, len(right))
    values = pair_products(left, right, queries, items)[0]
    if similarity == "cosine":
        # The root of the product, not the product of roots, gives identical vectors exactly 1.
        values /= np.sqrt(_squares(left, queries) * _squares(right, items))
    return np.asarray(values[occurrence])


def _find_repeated(ids: IntArray, run: EmbeddingsRun, side: str) -> IntArray:
    """(P,) row of each id, of which many repeat."""
    distinct, occurrence = np.unique(ids, return_inverse=True)
    return find_rows(distinct, run, side)[occurrence]


def _squares(vectors: NDArray[np.float32], rows: IntArray) -> FloatArray:
    """(P,) squared lengths of the chosen vectors."""
    distinct, occurrence = np.unique(rows, return_inverse=True)
    return np.asarray(pair_products(vectors, vectors, distinct, distinct)[0][occurrence])
