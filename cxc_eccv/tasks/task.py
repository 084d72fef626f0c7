"""Task: the declaration of an evaluation protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.judgments.evidence import label_sources, readable_official
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.library import Split
from cxc_eccv.terminal import upper_first
from cxc_eccv.types import DIRECTIONS, Judgments, RatedPairs

Judged = Judgments | CategoryMatches
JudgmentsOf = Callable[[Split], Judgments]
MatchesOf = Callable[[Split], CategoryMatches]
RatedOf = Callable[[Split], RatedPairs]

RATED_DIRECTIONS = {"sts": "t2t", "sis": "i2i", "sits": "i2t", "expert": "i2t", "crowd": "i2t"}
"""Kind of rated pairs to its direction."""


def direction_of(part: str) -> str:
    """The direction of a part; most parts are named after it."""
    return RATED_DIRECTIONS.get(part, part)


class NotApplicable(InvalidOption):
    """The task is not defined on this split, data or run."""


@dataclass(frozen=True, slots=True)
class Task:
    """One evaluation protocol, whose parts are its directions and its kinds of rated pairs.

    Attributes:
        name: name in report keys, equal to the file's name.
        description: what is ranked and which positives count, in plain sentences.
        directions: direction (``i2t``, ``t2i``, ``t2t``, ``i2i``) to the function that reads its judgments from a
            split.
        splits: splits on which the task is defined.
        metrics: names of the metrics reported by default.
        main_metric: label of the headline metric, for example ``recall_at_1``.
        citation: the paper that defines the protocol.
        licence: licence of the labels.
        sources: groups of raw files in the catalog that the labels need.
        config: dataset config with the labels of the directions; rated pairs are in the config of their kind. Empty for
            labels outside the dataset; the task is then on no leaderboard.
        whole: names of the metrics over all directions together, for example ``rsum``.
        serves: what the judgments of the directions offer, as in ``Spec.needs``: ``ranks``, ``top_k`` (judgments with
            gains) or ``plausible_hits`` (category matches).
        graded: direction to judgments with gains, for metrics that need ``top_k``, if ``serves`` is not ``top_k``.
        verdicts: direction to judged pairs with verdicts as gains, negatives too, for metrics that need
            ``judged_ranks``.
        gains: kind of those gains, as in ``Spec.gains``: ``ratings``, ``labels`` of 0 and 1, or ``degrees``.
        rated: kind (``sts``, ``sis``, ``sits``) to rated pairs, for metrics that need them.
        collection: the images and captions that are ranked.
        label_sources: sources of the positives, as in :func:`cxc_eccv.judgments.evidence.label_sources`; the examples
            of a report show their labels.
        of_label_files: whether the positives come from the label files of the library, all of them together, and from
            the official sources. Without label files, reports do not mention the task.
        title: name in tables and headings; defaults to the name in words.
        facts: facts about the labels for a report's provenance, from a split.
    """

    name: str
    description: str
    directions: Mapping[str, JudgmentsOf] | Mapping[str, MatchesOf]
    splits: tuple[str, ...]
    metrics: tuple[str, ...]
    main_metric: str
    citation: str
    licence: str
    sources: tuple[str, ...]
    config: str = ""
    whole: tuple[str, ...] = ()
    serves: str = "ranks"
    graded: Mapping[str, JudgmentsOf] = field(default_factory=dict)
    verdicts: Mapping[str, JudgmentsOf] = field(default_factory=dict)
    gains: str = "ratings"
    rated: Mapping[str, RatedOf] = field(default_factory=dict)
    collection: Collection = COCO
    label_sources: tuple[str, ...] = ()
    of_label_files: bool = False
    title: str = ""
    facts: Callable[[Split], Mapping[str, Any]] = lambda _split: {}

    def __post_init__(self) -> None:
        for direction in (*self.directions, *self.graded, *self.verdicts):
            if direction not in DIRECTIONS:
                raise UnknownName("direction", direction, DIRECTIONS)
        for kind in self.rated:
            if kind not in RATED_DIRECTIONS:
                raise UnknownName("kind of rated pairs", kind, RATED_DIRECTIONS)
        for source in self.label_sources:
            if source not in label_sources():
                raise UnknownName("source of labels", source, label_sources())
        object.__setattr__(self, "title", self.title or upper_first(self.name.replace("_", " ")))

    @property
    def parts(self) -> tuple[str, ...]:
        """Directions, then kinds of rated pairs.

        Example:
            >>> from cxc_eccv.tasks.cxc import TASK
            >>> TASK.parts
            ('i2t', 't2i', 't2t', 'i2i', 'sts', 'sis', 'sits')
        """
        return (*self.directions, *self.rated)

    @property
    def offers(self) -> dict[str, Mapping[str, Callable[[Split], Any]]]:
        """What metrics need, as in ``Spec.needs``, to the parts that offer it and the functions that read it.

        Example:
            >>> from cxc_eccv.tasks.cxc import TASK
            >>> {need: list(parts) for need, parts in TASK.offers.items()}["rated_pairs"]
            ['sts', 'sis', 'sits']
        """
        return {
            "judged_ranks": self.verdicts,
            "top_k": self.graded,
            "rated_pairs": self.rated,
            self.serves: self.directions,
        }

    def sources_in(self, split: Split) -> tuple[str, ...]:
        """The sources of the positives of a split.

        Example:
            >>> from cxc_eccv.sources.library import Library
            >>> from cxc_eccv.tasks.cxc import TASK
            >>> TASK.sources_in(Library("sample").split("test"))
            ('coco', 'cxc')
        """
        return tuple(readable_official(split)) if self.of_label_files else self.label_sources

    def judged(self, need: str, split: Split, part: str) -> Judged | RatedPairs:
        """The judgments of one part for metrics with one need.

        Args:
            need: a need that the part offers, as in ``Spec.needs``.
            split: ``validation`` or ``test`` of the task's collection.
            part: a direction or a kind of rated pairs.

        Raises:
            UnknownName: the task has no such part.
            NotApplicable: the task is not defined on this split or this data.
            DataError: a raw file is missing or malformed.
        """
        offered = self.offers.get(need, {})
        if part not in offered:
            raise UnknownName(f"part of {self.name}", part, offered)
        if split.collection.name != self.collection.name:
            raise NotApplicable(f"{self.name} is about {self.collection.title}, not {split.collection.title}")
        if split.name not in self.splits:
            raise NotApplicable(f"{self.name} has no {split.name} split, only {', '.join(self.splits)}")
        judged: Judged | RatedPairs = offered[part](split)
        return judged

    def judgments(self, split: Split, direction: str) -> Judgments:
        """The positives, or judged items with gains, of every query in one direction.

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
        if direction not in self.directions:
            raise UnknownName(f"direction of {self.name}", direction, self.directions)
        judged = self.judged(self.serves, split, direction)
        if not isinstance(judged, Judgments):
            raise NotApplicable(f"{self.name} lists no positives: categories decide what matches")
        return judged
