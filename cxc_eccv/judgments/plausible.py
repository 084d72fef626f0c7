"""Plausible matches (PCME, arXiv 2101.05068): images whose category sets differ in at most zeta categories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MalformedRun, UnknownName
from cxc_eccv.sources.library import Split
from cxc_eccv.types import CROSS_MODAL, FloatArray, IntArray, find_positions
from cxc_eccv.types.judgments import orient

CLASSES_AT_ONCE = 512
BYTES_PER_WORD = 8


@dataclass(frozen=True, slots=True, eq=False)
class CategoryMatches:
    """Plausible matches at every zeta: images with equal category sets form a class, and classes have distances."""

    query_ids: IntArray
    gallery_ids: IntArray
    query_classes: IntArray  # (Q,) class of each query's image
    gallery_classes: IntArray  # (N,)
    distances: NDArray[np.unsignedinteger]  # (C, C)

    @classmethod
    def of(
        cls, query_ids: IntArray, query_sets: NDArray[np.bool_], gallery_ids: IntArray, gallery_sets: NDArray[np.bool_]
    ) -> CategoryMatches:
        """Build from (Q, C) and (N, C) bool, whether the image of each query and item shows each category."""
        classes, distances = _find_classes(np.concatenate([query_sets, gallery_sets]))
        of_queries, of_items = np.split(classes, [len(query_sets)])
        return cls(query_ids, gallery_ids, of_queries, of_items, distances)

    def without(self, query_ids: IntArray, gallery_ids: IntArray) -> CategoryMatches:
        """Matches without these queries and items; queries without a match at zeta 0 are dropped too."""
        kept = ~np.isin(self.gallery_ids, gallery_ids)
        items = self.gallery_classes[kept]
        queries = ~np.isin(self.query_ids, query_ids) & np.isin(self.query_classes, items)
        return CategoryMatches(
            self.query_ids[queries], self.gallery_ids[kept], self.query_classes[queries], items, self.distances
        )


def _find_classes(sets: NDArray[np.bool_]) -> tuple[IntArray, NDArray[np.unsignedinteger]]:
    """(N,) class of each of N category sets, and the distances of the classes."""
    packed = np.packbits(sets, axis=1)
    wide = np.pad(packed, ((0, 0), (0, -packed.shape[1] % BYTES_PER_WORD))).view(np.uint64)
    order = np.lexsort(wide.T)
    new = np.append(True, (wide[order[1:]] != wide[order[:-1]]).any(axis=1))
    classes = np.empty(len(sets), dtype=np.int64)
    classes[order] = np.cumsum(new) - 1
    return classes, category_distances(sets[order[new]])


def category_distances(present: NDArray[np.bool_]) -> NDArray[np.unsignedinteger]:
    """(N, N) number of categories in which images differ, from (N, C) bool, in the smallest unsigned type."""
    vectors = present.astype(np.float32)  # whole numbers up to 2 C, exact in float32
    ones = np.ones((len(vectors), 1), np.float32)
    sizes = vectors.sum(axis=1, keepdims=True)
    # |a| + |b| - 2 ab as one product, strip by strip: the whole float32 product would be four times the result
    left = np.hstack([-2 * vectors, sizes, ones])
    right = np.hstack([vectors, ones, sizes])
    distances = np.empty((len(vectors), len(vectors)), dtype=np.min_scalar_type(present.shape[1]))
    for start in range(0, len(vectors), CLASSES_AT_ONCE):
        strip = slice(start, start + CLASSES_AT_ONCE)
        distances[strip] = left[strip] @ right.T
    return distances


def with_categories(split: Split) -> tuple[IntArray, NDArray[np.bool_]]:
    """Ids and category vectors of the images that show at least one category."""
    sets = split.categories()
    shown = sets.present.any(axis=1)
    return sets.image_ids[shown], sets.present[shown]


def category_matches(split: Split, direction: str) -> CategoryMatches:
    """Plausible matches of a split; a caption has the categories of its image, and original links match too."""
    if direction not in CROSS_MODAL:
        raise UnknownName("direction of plausible matches", direction, CROSS_MODAL)
    image_ids, present = with_categories(split)
    # Shared by both directions, as it multiplies all classes with each other.
    classes, distances = split.cached("classes of categories", lambda: _find_classes(present))
    places, known = find_positions(split.caption_image_ids, image_ids)
    captions = split.caption_ids[known], classes[places[known]]
    (query_ids, of_queries), (gallery_ids, of_gallery) = orient((image_ids, classes), captions, direction)
    return CategoryMatches(query_ids, gallery_ids, of_queries, of_gallery, distances)


Criterion = tuple[int, int | None]
"""Zeta, the most categories in which a match differs from its query; and the cut of R, or None."""


@dataclass(frozen=True, slots=True, eq=False)
class PlausibleHits:
    """Number of plausible matches among the top items of every query, under the pessimistic tie rule.

    A criterion (zeta, cut) counts the matches among the top min(R, cut) items, or the top R if cut is None, where R is
    the number of gallery items whose category set differs from the query's in at most zeta categories.

    Attributes:
        query_ids: (Q,) int64.
        criteria: L zetas and cuts.
        n_matches: (Q, L) R, at least 1.
        hits: (Q, L) number of matches among the top items.
        ties: (Q,) number of items that tie with a match at the depth of a criterion, where the tie rule decides.
        if_ties_help: the hits if of equal scores matches stood first; None where no number would differ.

    Example:
        >>> hits = PlausibleHits(np.array([5]), ((0, 50),), np.array([[60]]), np.array([[20]]), np.array([0]))
        >>> hits.precision(0, 50).tolist()
        [0.4]
    """

    query_ids: IntArray
    criteria: tuple[Criterion, ...]
    n_matches: IntArray
    hits: IntArray
    ties: IntArray
    if_ties_help: PlausibleHits | None = None

    def __post_init__(self) -> None:
        possible = (self.n_matches >= 1) & (self.hits >= 0) & (self.hits <= self.n_matches)
        bad = np.flatnonzero(~possible.all(axis=1))
        if not self.query_ids.size:
            raise MalformedRun("plausible hits have no query; give at least one")
        if bad.size:
            raise MalformedRun(
                f"query {self.query_ids[bad[0]]} has {self.hits[bad[0]].tolist()} hits for "
                f"{self.n_matches[bad[0]].tolist()} matches; need at least one match, and from 0 to that many hits"
            )

    def precision(self, zeta: int, cut: int | None = None) -> FloatArray:
        """(Q,) fraction of the items in one criterion that match."""
        if (zeta, cut) not in self.criteria:
            raise InvalidOption(f"matches at zeta {zeta} and cut {cut} were not counted, only {self.criteria}")
        column = self.criteria.index((zeta, cut))
        depths = self.n_matches[:, column] if cut is None else np.minimum(self.n_matches[:, column], cut)
        return np.asarray(self.hits[:, column] / depths)
