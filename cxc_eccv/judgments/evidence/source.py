"""Source: the declaration of a source of labels; Evidence: what a source says about pairs."""

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
    """Lowest CxC rating that makes a pair positive; the defaults are the paper's."""

    sts: float = 3.0
    sis: float = 2.5
    sits: float = 3.0

    def __post_init__(self) -> None:
        for name in ("sts", "sis", "sits"):
            value = getattr(self, name)
            if not 0 < value <= 5:
                raise InvalidOption(
                    f"the threshold {name} is {value}; ratings run from 0 to 5, so choose one in (0, 5]"
                )

    def of_direction(self, direction: str) -> float:
        """The threshold of the ratings that judge a direction."""
        return float(getattr(self, KIND[direction]))


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What one source says about ordered pairs; a pair that it is undecided about is not among them."""

    queries: IntArray  # (P,) ids
    items: IntArray
    positive: NDArray[np.bool_]  # False: judged negative
    ratings: FloatArray  # NaN where the source does not grade
    reverse: FloatArray  # rating of the pair in the other order (SIS), or NaN
    left_out: Mapping[str, int]  # rule to the number of raw judgments that it left out
    rule: str = ""  # why pairs are positive; gather fills in the rule of the source if empty
    source: str = ""  # name of the source; gather fills it in

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
        """Build with defaults: all pairs positive, none rated, none left out."""
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
    """A source of labels. To add one, write a file in ``judgments/evidence`` that defines ``SOURCE``.

    Attributes:
        name: name in provenance; that of the file, unless it has several sources.
        title: name in tables.
        order: place among the sources, oldest and most general first; under ``override`` the last one decides.
        rule: maps direction and thresholds to the reason why pairs are positive, in words.
        evidence: maps library, split, direction and thresholds to the evidence, or to None if it judges nothing.
        groups: groups of raw files in the catalog that it reads, for licences and citations.
        lists_positives: whether it lists only positives, so that unlisted items of its queries do not match.
        official: whether people gave the labels. Labels of models count only on request, and are in no report.
        yes, no: text of an example for a positive and a negative pair, with a placeholder for CxC's ``{ratings}``.
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
    """(P,) index of each pair of ids in the flattened matrix of all queries by all items."""
    return positions_of(queries, query_ids)[0] * gallery_ids.size + positions_of(items, gallery_ids)[0]


@cache
def label_sources() -> Mapping[str, Source]:
    """Every declared source of labels by name, from the oldest and most general to the latest and most specific."""
    declared = find_declared(importlib.import_module(__package__), "SOURCE", Source)
    return MappingProxyType(dict(sorted(declared.items(), key=lambda entry: entry[1].order)))


def official_sources() -> Mapping[str, Source]:
    """The sources whose labels people gave, in the same order; reports show these."""
    return {name: source for name, source in label_sources().items() if source.official}


LABEL_FILES = 45  # Order of label files: after the declared sources of people, before those of models


def sources_of(library: Library) -> Mapping[str, Source]:
    """The declared sources of labels and the label files of a library, in their order."""
    taken = [name for name in library.label_names if name in label_sources()]
    if taken:
        raise DataError(
            f"the labels are named {taken[0]!r}, which is the name of a declared source. Merge them again under a name "
            f"other than {', '.join(label_sources())}"
        )
    files = {name: label_file_source(name) for name in library.label_names}
    return dict(sorted({**label_sources(), **files}.items(), key=lambda entry: entry[1].order))


def label_file_source(name: str) -> Source:
    """The source of labels for the label files of one name."""
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
    """The pairs of a label file, judged in both directions, whichever one they were proposed in."""
    file = library.labels(name, split) if direction in ("i2t", "t2i") else None
    if file is None:
        return None
    images, captions, positive = (np.asarray(file.table[column]) for column in ("image_id", "caption_id", "positive"))
    queries, items = (images, captions) if direction == "i2t" else (captions, images)
    return replace(Evidence.of(queries, items, positive), rule=f"{file.facts['rule']}, {file.facts['version']}")


def gather(library: Library, split: str, direction: str, source: str, thresholds: Thresholds) -> Evidence | None:
    """The evidence of ``source`` in this direction, or None if it judges nothing of the split."""
    declared = sources_of(library)[source]
    evidence = declared.evidence(library, split, direction, thresholds)
    if evidence is None:
        return None
    return replace(evidence, source=source, rule=evidence.rule or declared.rule(direction, thresholds))
