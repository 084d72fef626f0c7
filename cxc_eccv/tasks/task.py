"""Task: the declaration of an evaluation protocol, with the judgments of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.judgments.evidence.source import label_sources, merged_official
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.library import Split
from cxc_eccv.types import DIRECTIONS, Judgments, RatedPairs

Judged = Judgments | CategoryMatches | RatedPairs
JudgmentsOf = Callable[[Split, str], Judgments]
"""Reads the judgments of a split in a direction."""

LABEL_FILES = "label files"
"""Among a task's sources: all label files of the library, and the official sources."""


class NotApplicable(InvalidOption):
    """The task is not defined on this split, data or run."""


@dataclass(frozen=True, slots=True)
class Part:
    """A direction or a set of rated pairs of a task: what metrics can read there, each from a function of its own.

    A metric is defined for the parts that have what it reads (``Spec.reads``), the name of a field.

    Attributes:
        name: name in report keys.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``; defaults to the name.
        ranks: the positives of every query.
        labels: judged items with labels 0 and 1 as gains.
        matches: category matches.
        rated: rated pairs.
        verdicts: judged items, negatives too, with verdicts as gains.
        ratings: judged items with ratings as gains.
        degrees: judged items with degrees from 0 to 1 as gains.
        rating_edges: ends of the ranges of ratings by which reports show similarities of rated pairs; none if empty.

    Example:
        >>> from cxc_eccv.tasks.cxc import TASK
        >>> [(part.name, part.direction, part.offers) for part in TASK.parts][3:5]
        [('i2i', 'i2i', ('ranks', 'ratings')), ('sts', 't2t', ('rated',))]
    """

    name: str
    _: KW_ONLY
    direction: str = ""
    ranks: JudgmentsOf | None = None
    labels: JudgmentsOf | None = None
    matches: Callable[[Split, str], CategoryMatches] | None = None
    rated: Callable[[Split, str], RatedPairs] | None = None
    verdicts: JudgmentsOf | None = None
    ratings: JudgmentsOf | None = None
    degrees: JudgmentsOf | None = None
    rating_edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "direction", self.direction or self.name)
        if self.direction not in DIRECTIONS:
            raise UnknownName(f"direction of part {self.name}", self.direction, DIRECTIONS)
        if not self.offers:
            raise InvalidOption(f"part {self.name} has no judgments; give it {', '.join(JUDGMENT_NAMES)}")

    @property
    def offers(self) -> tuple[str, ...]:
        """The names of its judgments; the first are the main ones."""
        return tuple(name for name in JUDGMENT_NAMES if getattr(self, name) is not None)


JUDGMENT_NAMES = ("ranks", "labels", "matches", "rated", "verdicts", "ratings", "degrees")
"""What metrics can read in a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One evaluation protocol, whose parts are its directions and its sets of rated pairs.

    Attributes:
        name: name in report keys, equal to the file's name.
        title: name in tables and headings.
        description: what is ranked and which positives count, in plain sentences.
        parts: its parts, in the order of reports.
        splits: splits on which the task is defined.
        metrics: names of the metrics reported by default; those of the whole task, for example ``rsum``, last.
        main_metric: label of the headline metric, for example ``recall_at_1``.
        citation: the paper that defines the protocol.
        licence: licence of the labels.
        sources: groups of raw files in the catalog that the labels need.
        label_sources: sources of the positives, as in :func:`cxc_eccv.judgments.evidence.label_sources`, or
            :data:`LABEL_FILES`; the examples of a report show their labels.
        config: dataset config with the labels of the directions; rated pairs are in the config of their name. Empty for
            labels outside the dataset; the task is then on no leaderboard.
        collection: the images and captions that are ranked.
        facts: facts about the labels for a report's provenance, from a split.
    """

    name: str
    title: str
    description: str
    parts: tuple[Part, ...]
    splits: tuple[str, ...]
    metrics: tuple[str, ...]
    main_metric: str
    citation: str
    licence: str
    sources: tuple[str, ...]
    label_sources: tuple[str, ...] = ()
    config: str = ""
    collection: Collection = COCO
    facts: Callable[[Split], Mapping[str, object]] = lambda _split: {}

    def __post_init__(self) -> None:
        for field in ("title", "description", "parts", "splits", "metrics", "citation", "licence", "sources"):
            if not getattr(self, field):
                raise InvalidOption(f"task {self.name}: {field} is empty")
        if len(self.part_names) < len(self.parts):
            raise InvalidOption(f"task {self.name}: two of its parts have one name")
        for source in self.label_sources:
            if source not in (known := (*label_sources(), LABEL_FILES)):
                raise UnknownName("source of labels", source, known)

    @property
    def part_names(self) -> tuple[str, ...]:
        """The name of every part, in order.

        Example:
            >>> from cxc_eccv.tasks.cxc import TASK
            >>> TASK.part_names
            ('i2t', 't2i', 't2t', 'i2i', 'sts', 'sis', 'sits')
        """
        return tuple(dict.fromkeys(part.name for part in self.parts))

    @property
    def of_label_files(self) -> bool:
        """Whether its positives come from label files; without any, reports do not mention the task."""
        return LABEL_FILES in self.label_sources

    def part(self, name: str) -> Part:
        """The part of this name."""
        for part in self.parts:
            if part.name == name:
                return part
        raise UnknownName(f"part of {self.name}", name, self.part_names)

    def parts_with(self, reads: str) -> tuple[Part, ...]:
        """The parts with judgments that a metric reads.

        Example:
            >>> from cxc_eccv.tasks.cxc import TASK
            >>> [part.name for part in TASK.parts_with("rated")]
            ['sts', 'sis', 'sits']
        """
        return tuple(part for part in self.parts if reads in part.offers)

    def sources_in(self, split: Split) -> tuple[str, ...]:
        """The sources of the positives of a split.

        Example:
            >>> from cxc_eccv.sources.library import Library
            >>> from cxc_eccv.tasks.cxc import TASK
            >>> TASK.sources_in(Library("sample").split("test"))
            ('coco', 'cxc')
        """
        return tuple(merged_official(split.library)) if self.of_label_files else self.label_sources

    def read(self, reads: str, split: Split, name: str) -> Judged:
        """The judgments of one part that a metric reads.

        Args:
            reads: one of :attr:`Part.offers`.
            split: ``validation`` or ``test`` of the task's collection.
            name: name of the part.

        Raises:
            UnknownName: the task has no such part, or the part no such judgments.
            NotApplicable: the task is not defined on this split or this data.
            DataError: a raw file is missing or malformed.
        """
        part = self.part(name)
        if reads not in part.offers:
            raise UnknownName(f"judgments of {self.name}/{name}", reads, part.offers)
        if split.collection.name != self.collection.name:
            raise NotApplicable(f"{self.name} is about {self.collection.title}, not {split.collection.title}")
        if split.name not in self.splits:
            raise NotApplicable(f"{self.name} has no {split.name} split, only {', '.join(self.splits)}")
        judged: Judged = getattr(part, reads)(split.whole, part.direction)
        return split.cut(judged, part.direction)

    def judgments(self, split: Split, direction: str) -> Judgments:
        """The positives, or judged items with labels, of every query in one direction.

        Raises:
            UnknownName: the task has no such direction.
            NotApplicable: the task is not defined on this split or this data, or lists no positives.
            DataError: a raw file is missing or malformed.

        Example:
            >>> from cxc_eccv.sources.library import Library
            >>> from cxc_eccv.tasks.coco_5k import TASK
            >>> TASK.judgments(Library("sample").split("test"), "t2i").without_self
            False
        """
        judged = self.read(self.part(direction).offers[0], split, direction)
        if not isinstance(judged, Judgments):
            raise NotApplicable(f"{self.name}/{direction} lists no positives")
        return judged
