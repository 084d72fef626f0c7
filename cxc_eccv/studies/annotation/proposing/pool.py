"""Options of a proposal, the pool of pairs that a strategy chooses from, its choice, and the proposal made of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.evaluation.calls import split_key
from cxc_eccv.ranking import Options, Ranked, ranked
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Split
from cxc_eccv.types import (
    CROSS_MODAL,
    DIRECTIONS,
    FloatArray,
    IntArray,
    Judgments,
    check_whole,
    find_positions,
    find_sides,
)
from cxc_eccv.types.ids import find_distinct
from cxc_eccv.unjudged.judges import Judge, PairValues

Queries = tuple[int | ArrayLike | None, int | ArrayLike | None]
"""Number or ids of the images and of the captions that are queries."""

JsonObject = Mapping[str, Any]

NEAR = 25
"""Pairs within this rank of any list are not used as known negatives."""

BLOCK_SIZE = 256
"""Queries of a block of scores; fixed, so that a round does not depend on the number of processors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProposalOptions:
    """Which pairs to propose.

    Attributes:
        strategy: a name of :func:`cxc_eccv.studies.annotation.proposing.strategies.strategies`; None for ``eccv``, or
            ``cxc`` for pairs of two images or two captions.
        budget: the most candidates; None for all that the strategy proposes.
        depth: items to read from each list; None for the default of the strategy.
        queries: numbers of images and of captions to draw as queries, or their ids; None for all of a side, or as a
            whole for all that any model ranks.
        seed: seed of all draws. Queries depend only on it, so further rounds have the same queries.
        judge: the judge of ``active``: a table with ``image_id``, ``caption_id`` and ``probability``, or a classifier
            of entailment.
        number: the number for which ``active`` draws pairs, such as ``coco_5k/t2i/recall_at_1``.
        sources: sources of known labels; None for all official ones.
        ask_known: also ask about pairs that a source calls positive, to measure the precision of sources.
        asked: a table of pairs that were asked before, with ``image_id`` and ``caption_id``.
        sides: kinds of the items of a pair; only ``cxc`` chooses pairs of two images or two captions.
        limit: only the first images by id and their captions, as of ``cxc-eccv encode --limit``; None for all.
    """

    strategy: str | None = None
    budget: int | None = None
    depth: int | None = None
    queries: Queries | None = None
    seed: int = 0
    judge: Judge | pa.Table | None = None
    number: str | None = None
    sources: Sequence[str] | None = None
    ask_known: bool = False
    asked: pa.Table | None = None
    sides: tuple[str, str] = ("image", "caption")
    limit: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("budget", 1), ("depth", 1), ("seed", 0), ("limit", 1)):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least)
        if self.limit is not None and self.number is not None:
            raise InvalidOption(f"{self.number} is a number of the whole split; leave limit (--limit) out")
        if self.number is not None and self.number.count("/") == 2:  # a report's key, however it is written
            object.__setattr__(self, "number", "/".join(split_key(self.number)))


class Pairs:
    """The pairs of a split's images and captions as numbers: image row times captions, plus caption row."""

    def __init__(self, content: Split) -> None:
        self.content = content
        self.image_ids = content.image_ids
        self.caption_ids = content.caption_ids

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

    def read(self, table: pa.Table, what: str) -> IntArray:
        """Numbers of the pairs of a table, as :meth:`of_ids`."""
        images, captions = (np.asarray(table[name]).astype(np.int64) for name in ("image_id", "caption_id"))
        return self.of_ids(images, captions, what)

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


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPairs:
    """The judgments of sources."""

    pairs: IntArray  # ascending pairs that any source judged
    positives: Mapping[str, IntArray]  # name of each source to the ascending pairs that it calls positive

    def flag(self, pairs: IntArray) -> NDArray[np.bool_]:
        """(P, S) whether each source calls a pair positive."""
        return np.stack([np.isin(pairs, positives) for positives in self.positives.values()], axis=1)

    def are_positive(self, pairs: IntArray) -> NDArray[np.bool_]:
        """(P,) whether any source calls a pair positive."""
        return np.asarray(self.flag(pairs).any(axis=1))


@dataclass(frozen=True, eq=False)
class Pool:
    """The data that a strategy chooses from."""

    split: Split
    options: ProposalOptions
    strategy: Strategy
    pairs: Pairs
    runs: Mapping[str, Run]
    queries: tuple[IntArray, IntArray]  # (Q,) rows of the images that are queries, and of captions
    judged: JudgedPairs
    asked_before: IntArray  # ascending numbers of pairs
    random: np.random.Generator

    @property
    def depth(self) -> int:
        """The number of items to read from each list."""
        return self.options.depth or self.strategy.depth or NEAR

    @cached_property
    def closed(self) -> IntArray:
        """Ascending numbers of the pairs that are not asked about: judged, or asked before."""
        if self.strategy.draws:
            return self.asked_before
        pairs = self.judged.pairs
        if self.options.ask_known:
            pairs = pairs[~self.judged.are_positive(pairs)]
        return find_distinct(np.append(pairs, self.asked_before))

    def is_open(self, pairs: IntArray) -> NDArray[np.bool_]:
        """(P,) whether a pair was neither judged nor asked before."""
        return ~np.isin(pairs, self.closed)

    @cached_property
    def probabilities(self) -> tuple[IntArray, FloatArray] | None:
        """Numbers of the pairs of the judge's table, and their probabilities; None without a table."""
        table = self.options.judge
        if not isinstance(table, pa.Table):
            return None
        PairValues(table, "probability", "probabilities")  # checks columns, types, values and repeated pairs
        return self.pairs.read(table, "probabilities"), np.asarray(table["probability"], dtype=np.float64)

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
                    models = np.full(lists.size, model)
                    ways = np.full(lists.size, DIRECTIONS.index(direction))
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
        direction: [TopRows(Judgments.empty(*(ids[side] for side in find_sides(direction))), depth)]
        for direction in CROSS_MODAL
        if run.why_not(direction) is None
    }
    rank_in_blocks(run).rank_all({}, readers)
    return {direction: pairs.of_lists(direction, reader.result.ids) for direction, (reader,) in readers.items()}


class Choice(NamedTuple):
    """The pairs that a strategy chose."""

    pairs: IntArray  # (P,) numbers of distinct pairs; closed pairs are not asked about
    priority: FloatArray | None  # (P,) higher ones are asked first; None if the pairs are in that order
    entries: Entries = NONE  # entries of models' lists that propose some of these pairs
    facts: JsonObject = MappingProxyType({})  # recorded with the options


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to choose pairs."""

    name: str
    choose: Callable[[Pool], Choice]
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


def list_proposals(candidates: pa.Table) -> pd.DataFrame:
    """A row per proposal of a table of ``CANDIDATES``: its pair, model, direction and rank; a drawn pair has none."""
    lists = candidates["proposals"]
    rows = np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy())
    proposals = pc.list_flatten(lists)
    columns = {name: candidates[name].to_numpy()[rows] for name in ("image_id", "caption_id")}
    columns |= {name: pc.struct_field(proposals, name).to_pandas() for name in ("model", "direction", "rank")}
    return pd.DataFrame(columns)


@dataclass(frozen=True, slots=True)
class ProposalFacts:
    """How pairs were proposed, for a file.

    Of the counts, ``proposed`` is over all lists, and drawn or given pairs; ``distinct`` counts each pair once.
    Distinct pairs are known positives, judged negatives, asked before, or open; the candidates are the open pairs
    within the budget.
    """

    strategy: str
    split: str
    options: JsonObject
    models: Mapping[str, JsonObject]  # with hashes of runs and lists, which identify a model, whatever its file
    counts: Mapping[str, int]
    # Direction to the ids of the queries whose lists the strategy reads, whether or not it finds open pairs there.
    searched: Mapping[str, Sequence[int]] | None = None  # None for pairs of two images or two captions, as below
    near: int | None = None  # NEAR

    def to_json(self) -> JsonObject:
        """The facts that there are."""
        return {name: fact for name, fact in asdict(self).items() if fact is not None}


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """The pairs that a strategy proposes."""

    candidates: pa.Table  # pairs to ask about, most urgent first; as CANDIDATES
    known: pa.Table  # pairs that a source calls positive, which are not asked about; as CANDIDATES
    facts: ProposalFacts
    # Function of (P,) image ids and caption ids: whether any model has the pair among the top 25 of a list.
    is_near: Callable[[IntArray, IntArray], NDArray[np.bool_]]
