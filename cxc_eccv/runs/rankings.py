"""RankingsRun: the ranked items of every query, complete or cut short, as one RankedLists per direction."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.parquet import write_parquet
from cxc_eccv.runs.run import CORPUS, MODEL, AnyRun, check_name, whole_ids
from cxc_eccv.types import DIRECTIONS, SIDES, FloatArray, IntArray, find_sides
from cxc_eccv.types.ids import check_ids, measure_span, shorten
from cxc_eccv.types.provenance import ItemFacts, ListFacts, RunFacts
from cxc_eccv.writing import replaced_file

LARGEST_ID = np.iinfo(np.int64).max
MOST_DIGITS = 19
LISTS_AT_ONCE = 256
"""Lists that are converted together: one at a time would be slow, all at once too large."""

ITEMS_AT_ONCE = 2**18
"""Items that are checked together, which fit the processor's cache."""

RankingDict = Mapping[Any, ArrayLike] | Mapping[Any, Mapping[Any, float]]
"""Query id to ranked item ids, best first; or query id to item id to score."""

RowReader = Callable[[Any, str, Callable[[object], int]], tuple[NDArray[Any], FloatArray]]
"""Function of a query's list or dict, of what messages call it, and of a reader of keys, to items and scores."""

RANKING_FORMS = "a dict of query id to ranked item ids, best first, or to {item id: score}"


@dataclass(frozen=True, slots=True, eq=False)
class RankedLists:
    """The ranked items of every query of one direction: query q has ``items[indptr[q]:indptr[q + 1]]``, best first.

    ``items`` are int32 if they fit; ``place`` names the lists in messages. ``scored_share`` is the share of the pairs
    of a score matrix that were scored, if the lists come from one. Empty lists are refused, or with ``may_be_empty``
    set apart: their queries are ``without_results``, and refused where a task needs them.
    """

    query_ids: IntArray
    indptr: IntArray
    items: NDArray[Any]
    scores: FloatArray | None = None
    path: Path | None = None
    sha256: str | None = None
    place: str = "rankings"
    scored_share: float | None = None
    may_be_empty: bool = False
    without_results: IntArray = field(init=False)
    item_ids: IntArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "query_ids", check_ids(self.place, "query ids", self.query_ids))
        lengths = np.diff(self.indptr)
        is_empty = lengths == 0
        object.__setattr__(self, "without_results", self.query_ids[is_empty])
        if is_empty.all() or (is_empty.any() and not self.may_be_empty):
            self.refuse_empty(self.without_results)
        object.__setattr__(self, "query_ids", self.query_ids[~is_empty])
        object.__setattr__(self, "indptr", np.append(0, np.cumsum(lengths[~is_empty])))
        object.__setattr__(self, "item_ids", _distinct_ids(self.items))
        self._refuse_repeats()
        if self.scores is not None:
            self._refuse_bad_scores(self.scores)

    @classmethod
    def of(
        cls,
        lists: RankingDict,
        place: str = "rankings",
        *,
        path: Path | None = None,
        sha256: str | None = None,
        may_be_empty: bool = False,
    ) -> RankedLists:
        """Lists from a dict of query id to ranked item ids, best first, or to a dict of item id to score.

        Keys are integers or digits, higher scores are better; ``path`` and ``sha256`` are of the file of the dict.

        Example:
            >>> RankedLists.of({7: {30: 0.25, 10: 0.75}}).items.tolist(), RankedLists.of({7: [10, 30]}).items.tolist()
            ([10, 30], [10, 30])
        """
        if not isinstance(lists, Mapping):
            raise MalformedRun(f"{place}: is a {type(lists).__name__}; give {RANKING_FORMS}")
        if not lists:
            raise MalformedRun(f"{place}: holds no query; give {RANKING_FORMS}")
        queries = np.array([_read_id(key, f"{place}: query id") for key in lists], dtype=np.int64)
        read_row: RowReader = _sort_by_score if _has_scores(lists, place) else _read_list
        named = zip(queries.tolist(), lists.values(), strict=True)
        lengths: list[int] = []
        items: list[NDArray[Any]] = []
        scores: list[FloatArray] = []
        read_item = lru_cache(maxsize=None, typed=True)(partial(_read_id, what=f"{place}: item id"))
        while batch := list(itertools.islice(named, LISTS_AT_ONCE)):
            rows = []
            for query, row in batch:
                row_items, row_scores = read_row(row, f"{place}: the ranking of query {query}", read_item)
                lengths.append(row_items.size)
                rows.append(row_items)
                scores.append(row_scores)
            items.append(narrow_ids(np.concatenate(rows)))
        return cls(
            query_ids=queries,
            indptr=np.append(0, np.cumsum(lengths)),
            items=np.concatenate(items),
            scores=np.concatenate(scores) if read_row is _sort_by_score else None,
            path=path,
            sha256=sha256,
            place=place,
            may_be_empty=may_be_empty,
        )

    @property
    def depths(self) -> IntArray:
        """(Q,) length of each list."""
        return np.diff(self.indptr)

    def refuse_empty(self, query_ids: IntArray) -> None:
        """Raise MalformedRun if the list of one of these queries is empty."""
        empty = query_ids[np.isin(query_ids, self.without_results)]
        if empty.size:
            raise MalformedRun(
                f"{self.place}: the ranking of query {empty[0]} is empty; rank its gallery, or at least the items that "
                "the metrics need. To count queries without results as 0, set missing='zero' (--missing zero)."
            )

    def _refuse_repeats(self) -> None:
        """Raise MalformedRun for the first list that repeats an item; lists are checked a few at a time."""
        low, span, is_dense = measure_span(self.item_ids, self.items.size)
        span = span if is_dense else self.item_ids.size
        queries = np.arange(self.query_ids.size)
        for rows in np.split(queries, np.flatnonzero(np.diff(self.indptr[1:] // ITEMS_AT_ONCE)) + 1):
            block = self.items[self.indptr[rows[0]] : self.indptr[rows[-1] + 1]]
            codes = block.astype(np.int64) - low if is_dense else np.searchsorted(self.item_ids, block)
            ordered = np.sort(np.repeat(rows, self.depths[rows]) * span + codes)
            repeats = ordered[1:][ordered[1:] == ordered[:-1]]
            if repeats.size:
                row, code = divmod(int(repeats[0]), span)
                item = code + low if is_dense else self.item_ids[code]
                ranks = np.flatnonzero(self.items[self.indptr[row] : self.indptr[row + 1]] == item) + 1
                raise MalformedRun(
                    f"{self.place}: the ranking of query {self.query_ids[row]} lists item {item} twice, at ranks "
                    f"{ranks[0]} and {ranks[1]}. Every item has one rank; check the ids of the gallery for repeats."
                )

    def _refuse_bad_scores(self, scores: FloatArray) -> None:
        rising = np.append(False, scores[1:] > scores[:-1])
        rising[self.indptr[:-1]] = False
        rises = np.flatnonzero(rising | ~np.isfinite(scores))
        if rises.size:
            row = int(np.searchsorted(self.indptr, rises[0], side="right")) - 1
            rank = rises[0] - self.indptr[row] + 1
            raise MalformedRun(
                f"{self.place}: the ranking of query {self.query_ids[row]} has score {scores[rises[0]]} at rank {rank}"
                ", which is not finite or above the previous score. Sort each ranking by descending score."
            )


def _has_scores(lists: Mapping[Any, object], place: str) -> bool:
    """Whether every query has a dict of scores, not a list; raises MalformedRun for a mixture."""
    examples: dict[bool, object] = {}
    for query, row in lists.items():
        examples.setdefault(isinstance(row, Mapping), query)
    if len(examples) == 2:
        raise MalformedRun(
            f"{place}: query {examples[True]} has a dict of scores, query {examples[False]} has none; give every query "
            "a dict of scores, or every query a list of item ids"
        )
    return True in examples


def _read_id(key: object, what: str) -> int:
    """An id that is a key of a dict, an integer or digits; JSON has no other keys than text."""
    is_number = isinstance(key, int | np.integer) and not isinstance(key, bool)
    if is_number or (isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= MOST_DIGITS):
        number = int(str(key))
        if abs(number) <= LARGEST_ID:
            return number
    raise MalformedRun(
        f"{what} {shorten(key)} is not a whole number of 64 bits; use the COCO ids of images and captions, which are "
        "the last number in the names of COCO's files"
    )


def _read_list(row: ArrayLike, owner: str, _: Callable[[object], int]) -> tuple[NDArray[Any], FloatArray]:
    """The items of a ranked list, and no scores."""
    return whole_ids(row, owner), np.empty(0)


def _sort_by_score(
    row: Mapping[object, object], owner: str, read_item: Callable[[object], int]
) -> tuple[NDArray[Any], FloatArray]:
    """The items of a dict of scores and their scores, which descend."""
    items = np.fromiter(map(read_item, row), dtype=np.int64, count=len(row))
    scores = _read_scores(row.values(), owner, items)
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        raise MalformedRun(
            f"{owner} gives item {items[bad[0]]} the score {scores[bad[0]]}. Leave out the items that were not scored, "
            "so that the ranking counts as cut short; else give finite scores."
        )
    order = np.argsort(-scores, kind="stable")
    return items[order], scores[order]


def _read_scores(values: Iterable[object], owner: str, items: IntArray) -> FloatArray:
    """(P,) numbers, also of NumPy or of tensors without axes."""
    numbers = list(values)
    kinds = set(map(type, numbers))
    if bool in kinds or not all(issubclass(kind, Real) for kind in kinds):
        numbers = list(map(_unpack_scalar, numbers))
        for item, value in zip(items.tolist(), numbers, strict=True):
            if not isinstance(value, Real) or isinstance(value, bool):
                raise MalformedRun(
                    f"{owner} gives item {item} the score {shorten(value)}; a score is one number, higher is better"
                )
    try:
        return np.array(numbers, dtype=np.float64)
    except OverflowError:
        raise MalformedRun(f"{owner} has a score beyond float64; scale the scores") from None


def _unpack_scalar(value: Any) -> object:  # noqa: ANN401 - whatever the dict holds
    """The number in an array or a tensor without axes; anything else unchanged."""
    return value.item() if getattr(value, "shape", None) == () else value


def narrow_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """The ids as int32 if they fit, else int64; complete rankings of COCO hold 125 million ids."""
    limits = np.iinfo(np.int32)
    fits = not ids.size or (ids.min() >= limits.min and ids.max() <= limits.max)
    return ids.astype(np.int32 if fits else np.int64, copy=False)


def _distinct_ids(ids: NDArray[Any]) -> IntArray:
    """The distinct ids, ascending."""
    low, span, is_dense = measure_span(ids)
    if not is_dense:
        return np.unique(ids).astype(np.int64)
    present = np.zeros(span, dtype=bool)
    present[ids - low] = True
    return np.flatnonzero(present) + low


@dataclass(frozen=True, slots=True, eq=False)
class RankingsRun(AnyRun):
    """Rankings of one or more directions.

    The order is trusted. Equal scores, if there are scores, follow the tie rule: items that tie with a positive rank
    above it. Rankings that are cut short allow only the metrics for which they are deep enough.

    Attributes:
        lists: direction (``i2t``, ``t2i``, ``t2t``, ``i2i``) to its ranked lists.
        model: name of the model, or None.
        corpus: for rankings of ``query-corpus``, what represents an image, in words; they may lack queries. None for
            all other rankings.

    Raises:
        MalformedRun: there is no direction, or a name is not a line of text.
        UnknownName: a direction is unknown.

    Example:
        >>> run = RankingsRun.from_dicts({5: [30, 10, 20]}, {30: [5]})
        >>> run.why_not("t2i"), run.why_not("t2t"), run.ids("captions").tolist()
        (None, 'the run has no t2t rankings', [10, 20, 30])
    """

    kind: ClassVar[str] = "rankings"
    may_be_cut: ClassVar[bool] = True

    lists: Mapping[str, RankedLists]
    model: str | None = None
    corpus: str | None = None

    def __post_init__(self) -> None:
        check_name(self.path or "run", self.model)
        check_name(self.path or "run", self.corpus, what="the name of what represents an image")
        for direction in self.lists:
            if direction not in DIRECTIONS:
                raise UnknownName("direction", direction, DIRECTIONS)
        if not self.lists:
            raise MalformedRun("a rankings run needs at least one direction; this one has none")
        if self.corpus is not None and [*self.lists] != ["t2i"]:
            raise MalformedRun(
                f"{self.path or 'run'}: rankings of query-corpus have only t2i, but these have "
                f"{', '.join(self.lists)}; give the file of query-corpus alone"
            )

    @classmethod
    def from_dicts(
        cls,
        i2t: RankingDict | None = None,
        t2i: RankingDict | None = None,
        *,
        t2t: RankingDict | None = None,
        i2i: RankingDict | None = None,
    ) -> RankingsRun:
        """Build a run from dicts, the first two as for ``compute_all_metrics`` of the eccv_caption package.

        A dict has ranked item ids for every query, best first, or ``{item id: score}``, higher is better.

        Args:
            i2t: image id to ranked caption ids, or to scores of captions.
            t2i: caption id to ranked image ids, or to scores of images.
            t2t: the same of captions for captions; the query itself is left out.
            i2i: the same of images for images.

        Raises:
            MalformedRun: an argument is not a dict or is empty, a key or item is not an integer, a list repeats an
                item, a score is not finite, or lists and scores are mixed.
        """
        dicts = {"i2t": i2t, "t2i": t2i, "t2t": t2t, "i2i": i2i}
        return cls(make_lists({name: given for name, given in dicts.items() if given is not None}))

    @property
    def path(self) -> Path | None:
        """The file that holds all directions, or None."""
        paths = {lists.path for lists in self.lists.values()}
        return paths.pop() if len(paths) == 1 else None

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None."""
        return None if direction in self.lists else f"the run has no {direction} rankings"

    def as_embeddings(self) -> None:
        """None, as there are no vectors."""

    def why_unrated(self, direction: str) -> str:
        """Why pairs have no similarity."""
        return "rankings have no similarities of rated pairs"

    def query_ids(self, direction: str) -> IntArray:
        """(Q,) ids of the queries of a direction."""
        return self.lists[direction].query_ids

    def ids(self, side: str) -> IntArray:
        """(N,) distinct ids of the ``images`` or ``captions`` that are queries or ranked items."""
        ids = [np.empty(0, dtype=np.int64)]
        for direction, lists in self.lists.items():
            queries, gallery = find_sides(direction)
            if queries == side:
                ids += [lists.query_ids, lists.without_results]
            if gallery == side:
                ids.append(lists.item_ids)
        return np.unique(np.concatenate(ids))

    def depths(self, direction: str) -> IntArray:
        """(Q,) number of items that each query of a direction ranks, without the query itself."""
        lists = self.lists[direction]
        queries, gallery = find_sides(direction)
        if queries != gallery:
            return lists.depths
        owners = np.repeat(np.arange(lists.query_ids.size), lists.depths)
        is_query = lists.query_ids[owners] == lists.items
        return lists.depths - np.bincount(owners[is_query], minlength=lists.query_ids.size)

    def facts(self) -> RunFacts:
        """Kind and model; file, hash, number of queries and depth per direction; number of images and captions."""
        directions = {}
        for direction, lists in self.lists.items():
            depths = self.depths(direction)
            file = lists.path.name if lists.path else None
            deepest = int(depths.max())
            shallowest = int(depths.min())
            directions[direction] = ListFacts(
                file, lists.sha256, lists.query_ids.size, shallowest, deepest, lists.scored_share
            )
        images, captions = (ItemFacts(ids.size) if ids.size else None for ids in map(self.ids, SIDES))
        return RunFacts(
            kind=self.kind,
            file=self.path.name if self.path else None,
            model=self.model,
            corpus=self.corpus,
            directions=directions,
            images=images,
            captions=captions,
        )


def make_lists(
    dicts: Mapping[str, RankingDict], *, path: Path | None = None, sha256: str | None = None
) -> dict[str, RankedLists]:
    """Direction to its lists, from dicts in one form; ``path`` and ``sha256`` are of their file."""
    lists: dict[str, RankedLists] = {}
    for direction, given in dicts.items():
        place = direction if path is None else f"{path}, {direction}"
        lists[direction] = RankedLists.of(given, place, path=path, sha256=sha256, may_be_empty=True)
    with_scores = [direction for direction in lists if lists[direction].scores is not None]
    without = [direction for direction in lists if lists[direction].scores is None]
    if with_scores and without:
        where = "the dicts" if path is None else path
        raise MalformedRun(
            f"{where}: {with_scores[0]} has scores, {without[0]} has lists without scores; give both directions in one "
            "form"
        )
    return lists


def write_rankings(path: Path, run: RankingsRun) -> None:
    """Write ``query_id``, ``direction``, ``rank``, ``item_id`` and ``score`` as Parquet, in one step."""
    tables = []
    for direction, lists in run.lists.items():
        columns = {
            "query_id": np.repeat(lists.query_ids, lists.depths),
            "direction": pa.array([direction] * lists.items.size),
            "rank": np.arange(lists.items.size) - np.repeat(lists.indptr[:-1], lists.depths) + 1,
            "item_id": lists.items.astype(np.int64),
        }
        if lists.scores is not None:
            columns["score"] = lists.scores
        tables.append(pa.table(columns))
    table = pa.concat_tables(tables)
    names = {key: text for key, text in ((MODEL, run.model), (CORPUS, run.corpus)) if text is not None}
    with replaced_file(path) as part:
        write_parquet(table.replace_schema_metadata(names or None), part)
