"""The kit's labels and our values, one direction at a time, and its parts as other libraries take them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conformance.embeddings import make_kit
from cxc_eccv.metrics.ndcg_at_k import ndcg_at_k
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.registry import metric_labelled
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, IntArray, Judgments, PositiveRanks

Vectors = NDArray[np.float32]

CAPTIONS_PER_IMAGE = 5
QUERIES_WITH_MORE = {"i2t": 4, "t2i": 19}
"""Of the labels "topics", every 4th image and every 19th caption is a query: about as many as ECCV Caption has."""

NDCG = "ndcg_at_"
SHALLOWEST = 10

EXACT = 1e-9
"""Tolerance of a mean in double precision."""


@dataclass(frozen=True, eq=False)
class Part:
    """Queries of one direction under one set of labels.

    Attributes:
        labels: ``links``, each caption with its image; or ``topics``, all captions and images of one topic.
        direction: ``i2t`` or ``t2i``.
        judgments: positives of Q queries among N items; ids are positions from 0.
        queries: (Q, D) vectors.
        gallery: (N, D) vectors.
        scores: (Q, N) their dot products, whole numbers from -64 to 64.
    """

    labels: str
    direction: str
    judgments: Judgments
    queries: Vectors
    gallery: Vectors
    scores: NDArray[np.int8]

    def thin(self, most: int | None) -> Part:
        """At most so many queries, evenly spaced, against the whole gallery.

        The first ones would not do: their positives stand first in the gallery, and where ties are broken by position
        they would win.
        """
        step = 1 if most is None else -(-len(self.queries) // most)
        if step == 1:
            return self
        left_out = np.delete(self.judgments.query_ids, np.s_[::step])
        judgments = self.judgments.without(left_out, np.empty(0, dtype=np.int64))
        return replace(self, judgments=judgments, queries=self.queries[::step], scores=self.scores[::step])

    @property
    def positives(self) -> list[IntArray]:
        """Positions of the positives of every query, ascending."""
        return np.split(self.judgments.indices, self.judgments.indptr[1:-1])

    @cached_property
    def top_items(self) -> list[IntArray]:
        """Positions of every query's best items, ascending: at least 10 and the largest R; ties are kept whole."""
        place = len(self.gallery) - max(SHALLOWEST, int(self.judgments.n_positives.max()))
        return [np.flatnonzero(scores >= np.partition(scores, place)[place]) for scores in self.scores]

    @cached_property
    def _run(self) -> EmbeddingsRun:
        sides = Embeddings(self.judgments.query_ids, self.queries), Embeddings(self.judgments.gallery_ids, self.gallery)
        return EmbeddingsRun(*(sides if self.direction == "i2t" else sides[::-1]))

    @cached_property
    def ranks(self) -> PositiveRanks:
        """Our ranks: an item that ties with a positive stands above it."""
        return ranked(self._run, Options("dot")).rank(self.judgments, self.direction)

    def value(self, label: str, ranks: PositiveRanks | None = None) -> float:
        """The mean of one of our metrics, over our ranks or others."""
        if label.startswith(NDCG) and ranks is None:
            k = int(label.removeprefix(NDCG))
            graded = replace(self.judgments, gains=np.ones(self.judgments.indices.size))
            top = ranked(self._run, Options("dot")).find_top(graded, self.direction, k)
            return float(ndcg_at_k(top, graded, k).mean())
        spec, parameters = metric_labelled(label)
        return float(spec.function(self.ranks if ranks is None else ranks, **parameters).mean())


def parts(n_images: int) -> Iterator[Part]:
    """The parts of a kit of this size; only one direction's scores are in memory at a time."""
    kit = make_kit(n_images)
    sides = {"i": kit["images"], "t": kit["captions"]}
    owners = {"i": np.arange(n_images), "t": np.repeat(np.arange(n_images), CAPTIONS_PER_IMAGE)}
    topics = {side: kit["topics"][owner] for side, owner in owners.items()}
    for direction, step in QUERIES_WITH_MORE.items():
        yield from _parts_of(direction, sides, {"links": (1, owners), "topics": (step, topics)})


def _parts_of(
    direction: str, sides: Mapping[str, Vectors], labels: Mapping[str, tuple[int, Mapping[str, IntArray]]]
) -> Iterator[Part]:
    """The parts of a direction; by their labels the step between queries, and the key that positives share."""
    queries, gallery = (sides[side] for side in (direction[0], direction[-1]))
    scores = (queries @ gallery.T).astype(np.int8)
    for name, (step, keys) in labels.items():
        ids = np.arange(0, len(queries), step)
        positives = [np.flatnonzero(keys[direction[-1]] == key) for key in keys[direction[0]][ids]]
        pairs = np.repeat(ids, [items.size for items in positives]), np.concatenate(positives)
        judgments = Judgments.from_pairs(ids, np.arange(len(gallery)), *pairs)
        yield Part(name, direction, judgments, queries[::step], gallery, scores[::step])


def names_of(ids: IntArray) -> list[str]:
    """Names whose alphabetical order is that of the positions."""
    return [f"{position:05d}" for position in ids.tolist()]


def run_of(part: Part) -> dict[str, dict[str, float]]:
    """Query to item to score, of the best items."""
    items = names_of(part.judgments.gallery_ids)
    return {
        query: {items[position]: float(scores[position]) for position in top}
        for query, scores, top in zip(names_of(part.judgments.query_ids), part.scores, part.top_items, strict=True)
    }


def qrels_of(part: Part) -> dict[str, dict[str, int]]:
    """Query to positive to 1."""
    items = names_of(part.judgments.gallery_ids)
    return {
        query: dict.fromkeys((items[position] for position in positives), 1)
        for query, positives in zip(names_of(part.judgments.query_ids), part.positives, strict=True)
    }
