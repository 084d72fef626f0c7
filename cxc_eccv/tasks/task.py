"""Task: the declaration of what is ranked against what, and which numbers are reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.types import DIRECTIONS, Judgments

__all__ = ["NotApplicable", "Task"]

JudgmentsOf = Callable[[Library, str], Judgments]


class NotApplicable(InvalidOption):
    """The data at hand does not have the shape that the task's protocol asks for."""


@dataclass(frozen=True, slots=True)
class Task:
    """One evaluation protocol.

    Attributes:
        name: as in report keys; equal to the file's name.
        description: what is ranked, which positives count, in plain sentences.
        directions: direction (``i2t``, ``t2i``, ``t2t``, ``i2i``) to the function that gives its judgments for a
            library and a split.
        splits: splits it is defined on.
        metrics: names of the metrics reported by default.
        main_metric: label of the headline metric, for example ``recall_at_1``.
        citation: the paper that defines the protocol.
        licence: licence of the labels.
        whole: names of the metrics over all directions together, for example ``rsum``.
    """

    name: str
    description: str
    directions: Mapping[str, JudgmentsOf]
    splits: tuple[str, ...]
    metrics: tuple[str, ...]
    main_metric: str
    citation: str
    licence: str
    whole: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for direction in self.directions:
            if direction not in DIRECTIONS:
                raise UnknownName("direction", direction, DIRECTIONS)

    def judgments(self, library: Library, split: str, direction: str) -> Judgments:
        """Positives of every query of one direction.

        Raises:
            UnknownName: the task has no such direction.
            NotApplicable: the task is not defined on this split or this data.
            DataError: a raw file is missing or malformed.

        Example:
            >>> from cxc_eccv.tasks.coco_5k import TASK
            >>> TASK.judgments(Library("sample"), "test", "t2i").without_self
            False
        """
        if direction not in self.directions:
            raise UnknownName(f"direction of {self.name}", direction, self.directions)
        if split not in self.splits:
            raise NotApplicable(f"{self.name} has no {split} split, only {', '.join(self.splits)}")
        return self.directions[direction](library, split)
