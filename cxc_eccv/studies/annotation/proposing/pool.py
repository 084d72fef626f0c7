"""Strategies: the pool of open pairs that they choose from, with the models' lists of them, and what they choose."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.evaluation.report import choose_similarity
from cxc_eccv.ranking.rank import ranks_of_run
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.studies.entailment.judge import ClassifierJudge
from cxc_eccv.types import CROSS_MODAL, DIRECTIONS, FloatArray, IntArray, Judgments, positions_of, sides_of
from cxc_eccv.types.ids import distinct_of

NEAR = 25
"""A pair that a model has among so many of a list is no sure negative."""


def holds(ascending: IntArray, numbers: IntArray) -> NDArray[np.bool_]:
    """(P,) whether ascending numbers hold each of P others."""
    if not ascending.size:
        return np.zeros(numbers.shape, dtype=bool)
    places = np.minimum(np.searchsorted(ascending, numbers), ascending.size - 1)
    return np.asarray(ascending[places] == numbers)


class Pairs:
    """The pairs of a split's images and captions as numbers: image row times captions, plus caption row."""

    def __init__(self, content: KarpathySplit) -> None:
        self.image_ids, self.caption_ids = content.image_ids, content.caption_ids

    def number(self, images: IntArray, captions: IntArray) -> IntArray:
        """Numbers of pairs, by rows of images and captions."""
        return np.asarray(images * self.caption_ids.size + captions)

    def rows(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """Rows of the images and of the captions of pairs."""
        images, captions = np.divmod(pairs, self.caption_ids.size)
        return images, captions

    def ids(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """Ids of the images and of the captions of pairs."""
        images, captions = self.rows(pairs)
        return self.image_ids[images], self.caption_ids[captions]

    def of_ids(self, image_ids: IntArray, caption_ids: IntArray, what: str) -> IntArray:
        """Numbers of pairs, by ids; ``what`` they are is told of one that is not of the split."""
        rows = []
        for name, ids, known in (("image", image_ids, self.image_ids), ("caption", caption_ids, self.caption_ids)):
            places, there = positions_of(ids, known)
            if not there.all():
                raise DataError(f"{what}: {name} {ids[~there][0]} is not of this split; give pairs of it alone")
            rows.append(places)
        return self.number(*rows)

    def of_lists(self, direction: str, items: IntArray) -> IntArray:
        """(Q, D) numbers of the pairs of every query, in Karpathy order, with the (Q, D) item ids of its list."""
        if direction == "i2t":
            return self.number(np.arange(len(items))[:, None], positions_of(items, self.caption_ids)[0])
        return self.number(positions_of(items, self.image_ids)[0], np.arange(len(items))[:, None])


class Entries(NamedTuple):
    """Places of models' lists: (E,) the pair there, its model and direction of ``DIRECTIONS``, and rank."""

    pairs: IntArray
    models: IntArray
    directions: IntArray
    ranks: IntArray

    def only(self, chosen: NDArray[Any]) -> Entries:
        """Some of them, by place or by flag."""
        return Entries(*(column[chosen] for column in self))


NONE = Entries(*(np.empty(0, dtype=np.int64) for _ in Entries._fields))


@dataclass(frozen=True, eq=False)
class Pool:
    """What a strategy chooses from."""

    library: Library
    split: str
    pairs: Pairs
    runs: Mapping[str, Run]
    depth: int  # how many items of a list are looked at
    queries: tuple[IntArray, IntArray]  # (Q,) rows of the images that are queries, and of captions
    closed: IntArray  # ascending numbers of the pairs that somebody judged, or that were asked about
    sources: Sequence[str]  # those whose labels are known
    budget: int | None  # how many open pairs are wanted; None for all
    random: np.random.Generator
    classifier: ClassifierJudge | None
    probabilities: tuple[IntArray, NDArray[np.float64]] | None
    threshold: float
    metric: str

    def is_open(self, pairs: IntArray) -> NDArray[np.bool_]:
        """(P,) whether nobody judged a pair or was asked about it."""
        return ~holds(self.closed, pairs)

    @cached_property
    def lists(self) -> dict[str, dict[str, IntArray]]:
        """Name of each model to direction to (Q, D) pairs, best first, a row for each image or caption."""
        depth = max(self.depth, NEAR)
        ranked = {name: rank_lists(run, self.pairs, depth, find_similarity(run)) for name, run in self.runs.items()}
        for (one, first), (other, second) in itertools.combinations(ranked.items(), 2):
            alike = first.keys() == second.keys() and all(np.array_equal(first[way], second[way]) for way in first)
            if first and alike:
                raise InvalidOption(f"{one} and {other} have the same lists: give each model once")
        return ranked

    @cached_property
    def entries(self) -> Entries:
        """The top of every query's list, of all models and directions."""
        parts = []
        for model, ranked in enumerate(self.lists.values()):
            for direction, queries in zip(CROSS_MODAL, self.queries, strict=True):
                if direction in ranked:
                    lists = ranked[direction][queries, : self.depth]
                    ranks = np.tile(np.arange(1, lists.shape[1] + 1), len(lists))
                    models, ways = np.full(lists.size, model), np.full(lists.size, DIRECTIONS.index(direction))
                    parts.append(Entries(lists.ravel(), models, ways, ranks))
        return join_entries(parts)

    @cached_property
    def retrieved(self) -> tuple[IntArray, IntArray]:
        """(P,) pairs of the entries, ascending, and for each entry the place of its pair among them."""
        pairs = distinct_of(self.entries.pairs)
        return pairs, np.searchsorted(pairs, self.entries.pairs)


def join_entries(parts: Sequence[Entries]) -> Entries:
    """All entries of several."""
    return Entries(*(np.concatenate(columns) for columns in zip(NONE, *parts, strict=True)))


def judge_nothing(query_ids: IntArray, gallery_ids: IntArray, *, without_self: bool = False) -> Judgments:
    """Judgments that know no pair of these, so that ties are ordered by id alone."""
    nothing = np.zeros(query_ids.size + 1, dtype=np.int64), np.empty(0, dtype=np.int64)
    return Judgments(query_ids, gallery_ids, *nothing, np.ones(query_ids.size, dtype=np.int64), without_self)


def find_similarity(run: Run) -> str | None:
    """By which similarity a model's vectors are compared; None where it has none."""
    return choose_similarity(run, similarity=None)["similarity"]


def rank_lists(run: Run, pairs: Pairs, depth: int, similarity: str | None) -> dict[str, IntArray]:
    """Direction to (Q, D) pairs of every image or caption of the split with its best items, exact."""
    ids = {"images": pairs.image_ids, "captions": pairs.caption_ids}
    readers = {
        direction: [TopRows(judge_nothing(*(ids[side] for side in sides_of(direction))), depth)]
        for direction in CROSS_MODAL
        if run.why_not(direction) is None
    }
    ranks_of_run(run, {}, readers=readers, similarity=similarity)
    return {direction: pairs.of_lists(direction, own.result.ids) for direction, (own,) in readers.items()}


class Chosen(NamedTuple):
    """What a strategy chose."""

    pairs: IntArray  # (P,) numbers of pairs, each once; those that are closed are not asked about
    priority: FloatArray | None  # (P,) higher ones are asked first; None where the pairs stand in that order
    entries: Entries = NONE  # places of models' lists that propose some of these pairs


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to choose. A new one is one file in ``proposing/strategies`` that defines ``STRATEGY``."""

    name: str  # equal to the file's name
    choose: Callable[[Pool], Chosen]
    depth: int | None = None  # how many items of a list are looked at by default; None where it looks at no lists
    models: tuple[int, int | None] = (1, None)  # the fewest and the most; None for no limit
    directions: tuple[str, ...] = ("i2t", "t2i")  # those that every model must rank
    takes: tuple[str, ...] = ("queries",)  # of queries, classifier, probabilities, threshold and metric
