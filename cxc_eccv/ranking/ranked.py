"""Ranked: what an evaluation asks of a run, whatever its kind; the ids that it lacks; ranks from counts of scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.ranking.counts import Counts, MergedJudgments, RowPairs
from cxc_eccv.ranking.readers import RowReader, TopRows
from cxc_eccv.ranking.scores import IDS_NAMED, Layout, Options, Scores, scan
from cxc_eccv.ranking.ties import rank_positives
from cxc_eccv.runs import EmbeddingsRun, MatrixRun, RankingsRun, Run
from cxc_eccv.types import (
    CROSS_MODAL,
    SIDES,
    FloatArray,
    IntArray,
    Judgments,
    PositiveRanks,
    RatedPairs,
    TopK,
    find_positions,
    find_sides,
    other_side,
)
from cxc_eccv.types.ids import find_distinct

SWAP_SHARE = 0.9


def find_rows(ids: IntArray, run: EmbeddingsRun | MatrixRun, side: str, *, is_of_other_data: bool = False) -> IntArray:
    """Row of every id among the run's ids of a ``side``; raises MissingIds.

    ``is_of_other_data`` says that the run has no item of the other side, so that a part of it is not worth scoring.
    """
    run_ids = run.ids(side)
    if not run_ids.size:
        raise MissingIds(f"{run.path or 'run'}: has no {side}; this direction needs {ids.size} of them")
    rows, present = find_positions(ids, run_ids)
    if not present.all():
        missing = ids[~present]
        first = ", ".join(map(str, missing[:IDS_NAMED]))
        raise MissingIds(
            f"{run.path or 'run'}: lacks {missing.size} of {ids.size} {side} the task needs, the first: {first}. "
            + _remedy(run, side, ids, missing, is_of_other_data=is_of_other_data)
        )
    return rows


def _remedy(
    run: EmbeddingsRun | MatrixRun, side: str, ids: IntArray, missing: IntArray, *, is_of_other_data: bool
) -> str:
    other = other_side(side)
    if missing.size > ids.size / 2 and np.isin(ids, run.ids(other)).mean() >= SWAP_SHARE:
        return f"These ids are among the {other}: images and captions look swapped in the file."
    if missing.size == ids.size:
        return "The run has none of them; is it from another split or data set?"
    if is_of_other_data:
        return f"The run has none of the {other}; is it from another split or data set?"
    return (
        "Encode the missing items too, or score them; a score over part of the gallery is not comparable. cxc-eccv "
        "evaluate --allow-missing scores the part that the run has, and its report says so."
    )


def find_lists(query_ids: IntArray, run: RankingsRun, direction: str, *, is_of_other_data: bool = False) -> IntArray:
    """(Q,) index of each query's list among those of a direction; raises MissingIds.

    ``is_of_other_data`` says that the lists have no item of the gallery, so that a part of them is not worth scoring.
    """
    if direction not in run.lists:
        raise MissingIds(f"{run.path or 'run'}: has no {direction} rankings, only {', '.join(run.lists)}")
    lists = run.lists[direction]
    indices, present = find_positions(query_ids, lists.query_ids)
    if present.all():
        return indices
    missing = query_ids[~present]
    lists.refuse_empty(missing)
    first = ", ".join(map(str, missing[:IDS_NAMED]))
    remedy = (
        "Rank the gallery for these too, name the tasks whose queries the run has, or count these as 0 with "
        "missing='zero' (--missing zero)."
    )
    if missing.size == query_ids.size:
        remedy = (
            "The run ranks none of them: is it the right file, of this split (--split)? Else name the tasks it ranks."
        )
    elif is_of_other_data:
        remedy = "It ranks no item of the gallery: is it from another split or data set?"
    elif direction in CROSS_MODAL and len(run.lists) == 1:
        remedy += " Or leave them out with --allow-missing, as a part of the split."
    for other, ranked in run.lists.items():
        if other != direction and np.isin(missing, ranked.query_ids).all():
            remedy = f"They are queries of {other}: the two directions look swapped."
    raise MissingIds(
        f"{lists.place}: lacks the rankings of {missing.size} of {query_ids.size} queries the task needs, the first: "
        f"{first}. {remedy}"
    )


Requests = Mapping[str, tuple[str, Judgments]]
"""Name to direction and judgments."""

Readers = Mapping[str, Sequence[RowReader]]
"""Direction to further readers of its scores."""

NO_READERS: Readers = MappingProxyType({})

NO_SIMILARITY: Mapping[str, str | None] = MappingProxyType({"similarity": None, "similarity_from": None})


class Items(Protocol):
    """The queries of a direction, and the items that they rank."""

    @property
    def direction(self) -> str: ...  # noqa: D102
    @property
    def query_ids(self) -> IntArray: ...  # noqa: D102
    @property
    def gallery_ids(self) -> IntArray: ...  # noqa: D102


def collect_ids(side: str, needs: Iterable[Items]) -> IntArray:
    """(N,) distinct ids of a side that are queries or gallery items."""
    ids = [np.empty(0, dtype=np.int64)]
    for need in needs:
        query_side, gallery_side = find_sides(need.direction)
        ids += [need.query_ids] * (query_side == side) + [need.gallery_ids] * (gallery_side == side)
    return find_distinct(np.concatenate(ids))


def collect_missing(searches: Iterable[Callable[[], object]]) -> list[MissingIds]:
    """The errors of all searches."""
    errors: list[MissingIds] = []
    for search in searches:
        try:
            search()
        except MissingIds as error:
            errors.append(error)
    return errors


def refuse_vector_options(run: Run, options: Options) -> None:
    """Raise InvalidOption for an option that only vectors have."""
    for name in ("similarity", "block_size", "device"):
        value = getattr(options, name)
        if value is not None:
            raise InvalidOption(f"{name}={value!r} is for embeddings, and this run has {run.kind}; leave it out")


class Ranked(ABC):
    """A run with the options of its ranking; :func:`cxc_eccv.ranking.ranked` makes it.

    ``scoring`` is the similarity and who chose it, as entries of the provenance; None for runs without vectors.
    """

    run: Run
    scoring: Mapping[str, str | None] = NO_SIMILARITY

    @abstractmethod
    def rank_all(self, judgments: Requests, readers: Readers = NO_READERS) -> Mapping[str, PositiveRanks]:
        """Exact ranks by name for several sets of judgments; those over the same modalities share one product.

        Ranks of rankings are GivenRanks, which may be incomplete.
        """

    def rank(self, judgments: Judgments, direction: str) -> PositiveRanks:
        """Exact ranks of all positives of every query."""
        return self.rank_all({"": (direction, judgments)})[""]

    def find_top(self, judgments: Judgments, direction: str, k: int) -> TopK:
        """The exact top k items of every query, under the pessimistic tie rule."""
        reader = TopRows(judgments, k)
        self.rank_all({}, {direction: [reader]})
        return reader.result

    @abstractmethod
    def compare(self, pairs: RatedPairs, direction: str) -> FloatArray:
        """(P,) similarities of rated pairs, or scores if the run has scores."""

    @abstractmethod
    def find_missing(self, needs: Iterable[Items]) -> list[MissingIds]:
        """An error for each side, or each direction of rankings, that lacks items."""

    def knows_ties(self, direction: str) -> bool:
        """Whether items of equal scores can be told: not in rankings without scores."""
        return True

    def limit_depth(self, depth: int, judgments: Judgments, direction: str) -> int:
        """The depth, or that of the shallowest ranking of these queries if it ends before."""
        return depth


class ByCounts(Ranked):
    """A run with a score for every query with every item."""

    run: EmbeddingsRun | MatrixRun

    @abstractmethod
    def count(self, merged: Mapping[str, MergedJudgments], readers: Readers) -> dict[str, Counts]:
        """Counts of the positive pairs of every direction; the readers read the scores too."""

    def rank_all(self, judgments: Requests, readers: Readers = NO_READERS) -> Mapping[str, PositiveRanks]:
        """Exact ranks by name; judgments of one direction are merged."""
        grouped: dict[str, dict[str, Judgments]] = {direction: {} for direction in readers}
        for name, (direction, judged) in judgments.items():
            grouped.setdefault(direction, {})[name] = judged
        merged = {
            direction: MergedJudgments.of(named, readers.get(direction, ())) for direction, named in grouped.items()
        }
        counts = self.count(merged, readers)
        return {
            name: rank_positives(merged[direction].shares[name], counts[direction])
            for name, (direction, _) in judgments.items()
        }

    def find_missing(self, needs: Iterable[Items]) -> list[MissingIds]:
        """An error for each side that lacks items."""
        needs = [*needs]
        sides = {side: collect_ids(side, needs) for side in SIDES}
        needed = {side: ids for side, ids in sides.items() if ids.size}
        is_of_other_data = any(not np.isin(ids, self.run.ids(side)).any() for side, ids in needed.items())
        return collect_missing(
            partial(find_rows, ids, self.run, side, is_of_other_data=is_of_other_data) for side, ids in needed.items()
        )


def count_and_read(
    scores: Scores,
    merged: MergedJudgments,
    layout: Layout,
    readers: Sequence[RowReader],
    options: Options,
    label: str,
) -> Counts:
    """Count the positive pairs whose queries are rows; readers read the same blocks."""
    pairs = RowPairs(merged.queries, layout.column[merged.items], layout.bounds, scores.count_rows)
    for reader in readers:
        reader.attach(merged.query_ids, merged.gallery_ids, layout.column, layout.width)

    def read(block: Any, start: int) -> None:  # noqa: ANN401 - as scores fill it
        pairs.read(block, start)
        for reader in readers:
            reader.read(scores.to_host(block), start)

    scan(scores, read, options, label)
    return pairs.result
