"""Which tasks and directions a run is asked for, and why some cannot be computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cxc_eccv.errors import InvalidOption, SourceMissing
from cxc_eccv.ranking import missing_modality
from cxc_eccv.registry import task, tasks
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import NotApplicable, Task
from cxc_eccv.types import Judgments

__all__ = ["Request", "requested"]


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One direction of one task, with its positives.

    Attributes:
        task: the declaration.
        direction: one of its directions.
        judgments: positives of every query.
    """

    task: Task
    direction: str
    judgments: Judgments

    @property
    def key(self) -> str:
        """``task/direction``."""
        return f"{self.task.name}/{self.direction}"


def requested(
    run: EmbeddingsRun, wanted: str | Sequence[str], library: Library, split: str
) -> tuple[list[Request], dict[str, str]]:
    """The computable requests, and key to reason of those skipped.

    Args:
        run: decides which modalities are there.
        wanted: ``all``, or task names, each alone or with a direction (``cxc/t2t``).
        library: the raw sources.
        split: ``validation`` or ``test``.

    Raises:
        UnknownName: no such task or direction.
        InvalidOption: a task that was named cannot be computed at all.
        DataError: a raw file of a task that was named is missing; any raw file is malformed.
    """
    requests: list[Request] = []
    skipped: dict[str, str] = {}
    for one, directions, named in _selected(wanted):
        reasons = {}
        for direction in directions:
            try:
                requests.append(_request(run, one, direction, library, split))
            except (NotApplicable, SourceMissing) as error:
                if named and isinstance(error, SourceMissing):
                    raise
                reasons[f"{one.name}/{direction}"] = str(error)
        if named and len(reasons) == len(directions):
            raise InvalidOption(f"{one.name} cannot be computed: " + "; ".join(dict.fromkeys(reasons.values())))
        skipped |= reasons
    return requests, skipped


def _request(run: EmbeddingsRun, one: Task, direction: str, library: Library, split: str) -> Request:
    lacking = missing_modality(run, direction)
    if lacking is not None:
        raise NotApplicable(f"the run has no {lacking}")
    return Request(one, direction, one.judgments(library, split, direction))


def _selected(wanted: str | Sequence[str]) -> Iterator[tuple[Task, Sequence[str], bool]]:
    """Task, directions, and whether the user named it."""
    if wanted == "all":
        yield from ((one, tuple(one.directions), False) for one in tasks().values())
        return
    chosen: dict[str, list[str]] = {}
    for name in [wanted] if isinstance(wanted, str) else wanted:
        task_name, _, direction = name.partition("/")
        directions = [direction] if direction else list(task(task_name).directions)
        chosen.setdefault(task_name, []).extend(directions)
    yield from ((task(name), tuple(dict.fromkeys(directions)), True) for name, directions in chosen.items())
