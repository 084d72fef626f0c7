"""Ranked: what an evaluation asks of a run, whatever its kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import numpy as np

from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.ranking.readers import RowReader, TopRows
from cxc_eccv.ranking.scores import Options
from cxc_eccv.runs import Run
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, RatedPairs, TopK, find_sides
from cxc_eccv.types.ids import find_distinct

Requests = Mapping[str, tuple[str, Judgments]]
"""Name to direction and judgments."""

Readers = Mapping[str, Sequence[RowReader]]
"""Direction to further readers of its scores."""

NO_READERS: Readers = MappingProxyType({})

DEFAULT: Mapping[str, str | None] = MappingProxyType({"similarity": None, "similarity_from": None})


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
    scoring: Mapping[str, str | None] = DEFAULT

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

    def limit_depth(self, depth: int, judgments: Judgments, direction: str) -> int:
        """The depth, or that of the shallowest ranking of these queries if it ends before."""
        return depth
