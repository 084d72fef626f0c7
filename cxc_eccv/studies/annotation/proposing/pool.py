"""Strategy, the pool of open pairs and ranked lists that it chooses from, its choice, and the proposal made of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.ranking import Options, Ranked, ranked
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.studies.entailment.judge import ClassifierJudge
from cxc_eccv.types import CROSS_MODAL, DIRECTIONS, FloatArray, IntArray, Judgments, find_positions, find_sides
from cxc_eccv.types.ids import find_distinct

NEAR = 25
"""Pairs within this rank of any list are not used as known negatives."""

BLOCK_SIZE = 256
"""Queries of a block of scores; fixed, so that a round does not depend on the number of processors."""


class Pairs:
    """The pairs of a split's images and captions as numbers: image row times captions, plus caption row."""

    def __init__(self, content: KarpathySplit) -> None:
        self.content = content
        self.image_ids, self.caption_ids = content.image_ids, content.caption_ids

    def number(self, images: IntArray, captions: IntArray) -> IntArray:
        """Numbers of pairs from rows of images and captions."""
        return np.asarray(images * self.caption_ids.size + captions)

    def rows(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """Rows of the images and of the captions of pairs."""
        images, captions = np.divmod(pairs, self.caption_ids.size)
        return images, captions

    def ids(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """Ids of the images and of the captions of pairs."""
        images, captions = self.rows(pairs)
        return self.image_ids[images], self.caption_ids[captions]

    def holds(self, image_ids: IntArray, caption_ids: IntArray) -> NDArray[np.bool_]:
        """(P,) whether image and caption of each pair are here."""
        return np.isin(image_ids, self.image_ids) & np.isin(caption_ids, self.caption_ids)

    def of_ids(self, image_ids: IntArray, caption_ids: IntArray, what: str) -> IntArray:
        """Numbers of pairs from ids; DataError, which begins with ``what``, if one is not in the split."""
        rows = []
        for name, ids, known in (("image", image_ids, self.image_ids), ("caption", caption_ids, self.caption_ids)):
            places, there = find_positions(ids, known)
            if not there.all():
                raise DataError(f"{what}: {name} {ids[~there][0]} is not in this split; give pairs of the split only")
            rows.append(places)
        return self.number(*rows)

    def of_lists(self, direction: str, items: IntArray) -> IntArray:
        """(Q, D) numbers of pairs from the (Q, D) item ids of the lists of all queries, in Karpathy order."""
        if direction == "i2t":
            return self.number(np.arange(len(items))[:, None], find_positions(items, self.caption_ids)[0])
        return self.number(find_positions(items, self.image_ids)[0], np.arange(len(items))[:, None])


class Entries(NamedTuple):
    """Entries of models' lists: (E,) pairs, models, indices of directions in ``DIRECTIONS``, and ranks."""

    pairs: IntArray
    models: IntArray
    directions: IntArray
    ranks: IntArray

    def only(self, chosen: NDArray[Any]) -> Entries:
        """A selection of entries, by index or by mask."""
        return Entries(*(column[chosen] for column in self))


NONE = Entries(*(np.empty(0, dtype=np.int64) for _ in Entries._fields))


@dataclass(frozen=True, eq=False)
class Pool:
    """The data that a strategy chooses from."""

    library: Library
    split: str
    pairs: Pairs
    runs: Mapping[str, Run]
    depth: int  # items to read from each list
    queries: tuple[IntArray, IntArray]  # (Q,) rows of the images that are queries, and of captions
    closed: IntArray  # ascending numbers of the pairs that were judged or asked before
    sources: Sequence[str]  # sources of known labels
    budget: int | None  # the most open pairs; None for all
    random: np.random.Generator
    classifier: ClassifierJudge | None
    probabilities: tuple[IntArray, NDArray[np.float64]] | None
    metric: str
    given_sources: Sequence[str] | None = None  # sources of known labels that the user named

    def is_open(self, pairs: IntArray) -> NDArray[np.bool_]:
        """(P,) whether a pair was neither judged nor asked before."""
        return ~np.isin(pairs, self.closed)

    @cached_property
    def lists(self) -> dict[str, dict[str, IntArray]]:
        """Model to direction to (Q, D) pairs, best first, a row per image or caption."""
        depth = max(self.depth, NEAR)
        lists = {name: rank_lists(run, self.pairs, depth) for name, run in self.runs.items()}
        for (name, first), (other, second) in itertools.combinations(lists.items(), 2):
            alike = first.keys() == second.keys() and all(np.array_equal(first[way], second[way]) for way in first)
            if first and alike:
                raise InvalidOption(f"{name} and {other} have the same ranked lists: give each model once")
        return lists

    @cached_property
    def entries(self) -> Entries:
        """The top entries of every query's list, of all models and directions."""
        parts = []
        for model, of_model in enumerate(self.lists.values()):
            for direction, queries in zip(CROSS_MODAL, self.queries, strict=True):
                if direction in of_model:
                    lists = of_model[direction][queries, : self.depth]
                    ranks = np.tile(np.arange(1, lists.shape[1] + 1), len(lists))
                    models, ways = np.full(lists.size, model), np.full(lists.size, DIRECTIONS.index(direction))
                    parts.append(Entries(lists.ravel(), models, ways, ranks))
        return join_entries(parts)

    @cached_property
    def retrieved(self) -> tuple[IntArray, IntArray]:
        """(P,) ascending distinct pairs of the entries, and the index of each entry's pair among them."""
        pairs = find_distinct(self.entries.pairs)
        return pairs, np.searchsorted(pairs, self.entries.pairs)


def join_entries(parts: Sequence[Entries]) -> Entries:
    """Concatenate entries."""
    return Entries(*(np.concatenate(columns) for columns in zip(NONE, *parts, strict=True)))


def rank_in_blocks(run: Run) -> Ranked:
    """A run whose vectors, if it has any, are multiplied in blocks of the same size on every machine."""
    return ranked(run, Options(block_size=BLOCK_SIZE) if run.as_embeddings() else Options())


def rank_lists(run: Run, pairs: Pairs, depth: int) -> dict[str, IntArray]:
    """Direction to (Q, D) pairs of every image or caption of the split with its top items."""
    ids = {"images": pairs.image_ids, "captions": pairs.caption_ids}
    readers = {
        direction: [TopRows(Judgments.of_nothing(*(ids[side] for side in find_sides(direction))), depth)]
        for direction in CROSS_MODAL
        if run.why_not(direction) is None
    }
    rank_in_blocks(run).rank_all({}, readers)
    return {direction: pairs.of_lists(direction, reader.result.ids) for direction, (reader,) in readers.items()}


class Chosen(NamedTuple):
    """The pairs that a strategy chose."""

    pairs: IntArray  # (P,) numbers of distinct pairs; closed pairs are not asked about
    priority: FloatArray | None  # (P,) higher ones are asked first; None if the pairs are in that order
    entries: Entries = NONE  # entries of models' lists that propose some of these pairs
    facts: Mapping[str, Any] = MappingProxyType({})  # recorded with the options


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to choose pairs."""

    name: str
    choose: Callable[[Pool], Chosen]
    depth: int | None = None  # default number of items to read from each list; None if it reads no lists
    models: tuple[int, int | None] = (1, None)  # the fewest and the most; None for no limit
    directions: tuple[str, ...] = ("i2t", "t2i")  # directions that every model must rank
    takes: tuple[str, ...] = ("queries",)  # options that it takes
    draws: bool = False  # whether chance decides, so that every drawn pair is asked about, whatever sources say of it


PROPOSAL = pa.struct([("model", pa.string()), ("direction", pa.string()), ("rank", pa.int32())])
CANDIDATES = pa.schema(
    [
        pa.field("image_id", pa.int64(), nullable=False),
        pa.field("caption_id", pa.int64(), nullable=False),
        pa.field("proposals", pa.list_(PROPOSAL), nullable=False),
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("priority", pa.float64()),
        pa.field("known", pa.list_(pa.string()), nullable=False),
    ]
)
"""A pair: the lists that propose it with their ranks (none for a drawn pair), its strategy, its priority (null if the
strategy has none), and the sources that call it positive."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """The pairs that a strategy proposes.

    Of the counts in ``facts``, ``proposed`` is over all lists, and drawn or given pairs; ``distinct`` counts each pair
    once. Distinct pairs are known positives, judged negatives, asked before, or open; the candidates are the open pairs
    within the budget.
    """

    candidates: pa.Table  # pairs to ask about, most urgent first; as CANDIDATES
    known: pa.Table  # pairs that a source calls positive, which are not asked about; as CANDIDATES
    facts: dict[str, Any]  # strategy, options, models with hashes, and counts, for a file
    # Function of (P,) image ids and caption ids: whether any model has the pair among the top 25 of a list.
    is_near: Callable[[IntArray, IntArray], NDArray[np.bool_]]
