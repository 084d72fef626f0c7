"""Source: the declaration of who labels pairs, all of them in their order; and Evidence, what one says of pairs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.discovery import find_declared
from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.types import DIRECTIONS, FloatArray, IntArray, positions_of

KIND = {"i2t": "sits", "t2i": "sits", "t2t": "sts", "i2i": "sis"}  # Direction to the CxC ratings that judge it


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Lowest CxC rating, above 0, that makes a pair positive; the paper's values."""

    sts: float = 3.0
    sis: float = 2.5
    sits: float = 3.0

    def __post_init__(self) -> None:
        for name in ("sts", "sis", "sits"):
            value = getattr(self, name)
            if not 0 < value <= 5:
                raise InvalidOption(f"threshold {name}={value}: ratings run from 0 to 5, choose in (0, 5]")

    def of_direction(self, direction: str) -> float:
        """The threshold of the ratings that judge a direction."""
        return float(getattr(self, KIND[direction]))


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What one source says of ordered pairs."""

    queries: IntArray  # (P,) ids
    items: IntArray
    positive: NDArray[np.bool_]
    ratings: FloatArray  # NaN where the source does not grade
    reverse: FloatArray  # of the same pair in the other order (SIS), or NaN
    left_out: Mapping[str, int]  # rule to the number of raw judgments that it left out
    rule: str = ""  # what makes it say positive; the source's own where empty
    source: str = ""  # who says so; gather fills it in

    @classmethod
    def of(
        cls,
        queries: IntArray,
        items: IntArray,
        positive: NDArray[np.bool_] | None = None,
        ratings: FloatArray | None = None,
        reverse: FloatArray | None = None,
        left_out: Mapping[str, int] | None = None,
    ) -> Evidence:
        """Evidence of which not everything is given: all pairs positive, none rated, none left out."""
        none = np.full(queries.size, np.nan)
        return cls(
            queries,
            items,
            np.ones(queries.size, dtype=bool) if positive is None else positive,
            none if ratings is None else ratings,
            none if reverse is None else reverse,
            left_out or {},
        )


EvidenceOf = Callable[[Library, str, str, Thresholds], Evidence | None]
RuleOf = Callable[[str, Thresholds], str]


@dataclass(frozen=True, slots=True)
class Source:
    """One source of labels. A new one is one file in ``judgments/evidence`` that defines ``SOURCE``.

    Attributes:
        name: as in provenance; equal to the file's name.
        title: its name on paper.
        order: place among the sources, the oldest and most general first; under ``override`` the last one decides.
        rule: (direction, thresholds) to what makes it say positive, in words.
        evidence: (library, split, direction, thresholds) to all that it says, or None where it judges nothing.
        groups: groups of raw files, as in the catalog, that it reads, for licences and citations.
        lists_positives: it names positives alone, so that what it does not list is no match of a query it knows.
        official: people said so. What a machine says counts only where a caller asks for it, and is in no report.
        yes, no: what a shown example says of a pair, with a place for CxC's ``{ratings}``; nothing where empty.
    """

    name: str
    title: str
    order: int
    rule: RuleOf
    evidence: EvidenceOf
    groups: tuple[str, ...]
    lists_positives: bool = False
    official: bool = True
    yes: str = ""
    no: str = ""


def item_ids(library: Library, split: str, direction: str) -> tuple[IntArray, IntArray]:
    """Query ids and gallery ids of a direction, in Karpathy order."""
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    content = library.karpathy(split)
    ids = {"i": content.image_ids, "t": content.caption_ids}
    return ids[direction[0]], ids[direction[2]]


def number_pairs(queries: IntArray, items: IntArray, query_ids: IntArray, gallery_ids: IntArray) -> IntArray:
    """(P,) a number for each pair of ids, that of its place in a matrix of all queries by all items."""
    return positions_of(queries, query_ids)[0] * gallery_ids.size + positions_of(items, gallery_ids)[0]


@cache
def label_sources() -> Mapping[str, Source]:
    """Every source of labels by name, from the oldest and most general to the latest and most specific."""
    found = find_declared(importlib.import_module(__package__), "SOURCE", Source)
    return MappingProxyType(dict(sorted(found.items(), key=lambda entry: entry[1].order)))


def official_sources() -> Mapping[str, Source]:
    """Those whose labels people gave, in the same order: what a report shows."""
    return {name: source for name, source in label_sources().items() if source.official}


LABEL_FILES = 45  # Place of label files among the sources: after the declared ones of people, before what machines say


def sources_of(library: Library) -> Mapping[str, Source]:
    """The declared sources of labels and the label files that a library was opened with, in their order."""
    taken = [name for name in library.label_names if name in label_sources()]
    if taken:
        raise DataError(
            f"labels named {taken[0]!r}: a declared source of labels has this name. Merge them anew under another one, "
            f"none of {', '.join(label_sources())}"
        )
    own = {name: label_file_source(name) for name in library.label_names}
    return dict(sorted({**label_sources(), **own}.items(), key=lambda entry: entry[1].order))


def label_file_source(name: str) -> Source:
    """The source of labels that the label files of one name are."""
    return Source(
        name=name,
        title=name,
        order=LABEL_FILES,
        rule=lambda _direction, _thresholds: "as its file says",
        evidence=partial(_read_label_file, name=name),
        groups=(),
        yes=f"{name}: match",
        no=f"{name}: no match",
    )


def _read_label_file(
    library: Library, split: str, direction: str, _thresholds: Thresholds, *, name: str
) -> Evidence | None:
    """A pair is judged in both directions, whichever one it was proposed in."""
    found = library.labels(name, split) if direction in ("i2t", "t2i") else None
    if found is None:
        return None
    images, captions, positive = (np.asarray(found.table[column]) for column in ("image_id", "caption_id", "positive"))
    queries, items = (images, captions) if direction == "i2t" else (captions, images)
    return replace(Evidence.of(queries, items, positive), rule=f"{found.facts['rule']}, {found.facts['version']}")


def gather(library: Library, split: str, direction: str, source: str, thresholds: Thresholds) -> Evidence | None:
    """All that ``source`` says in this direction, or None where it judges nothing of the split."""
    own = sources_of(library)[source]
    found = own.evidence(library, split, direction, thresholds)
    if found is None:
        return None
    return replace(found, source=source, rule=found.rule or own.rule(direction, thresholds))
