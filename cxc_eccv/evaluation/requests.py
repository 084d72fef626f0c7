"""Which tasks and parts a run is asked for, and why some cannot be computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cxc_eccv.errors import CxcEccvError, InvalidOption, SourceMissing, UnknownName
from cxc_eccv.evaluation.held import collections_held
from cxc_eccv.evaluation.known_ids import Asked
from cxc_eccv.evaluation.plan import Plan, Variant, plan_of
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.registry import task, tasks
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import RATED_DIRECTIONS, NotApplicable, Task
from cxc_eccv.types import Judgments, RatedPairs

__all__ = ["Request", "requested"]


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One part of one task, with what its metrics are judged by.

    Attributes:
        task: the declaration.
        part: one of its directions or kinds of rated pairs.
        variants: its metrics.
        judged: what the metrics need, as in ``Spec.needs``, to judgments, category matches or rated pairs.
    """

    task: Task
    part: str
    variants: tuple[Variant, ...]
    judged: Mapping[str, Judgments | CategoryMatches | RatedPairs]

    @property
    def key(self) -> str:
        """``task/part``."""
        return f"{self.task.name}/{self.part}"

    @property
    def direction(self) -> str:
        """From which modality to which."""
        return RATED_DIRECTIONS.get(self.part, self.part)

    @property
    def asked(self) -> list[Asked]:
        """Ids that its metrics need of a run."""
        return [
            Asked(self.direction, one.query_ids, one.item_ids if isinstance(one, RatedPairs) else one.gallery_ids)
            for one in self.judged.values()
        ]


def requested(
    run: Run, wanted: str | Sequence[str], library: Library, split: str, metrics: Sequence[str] | None = None
) -> tuple[list[Request], dict[str, str], list[CxcEccvError]]:
    """The computable requests, key to reason of those skipped, and why tasks that were named cannot be computed at all.

    Args:
        run: decides which directions can be ranked.
        wanted: ``all``, or task names, each alone or with a part (``cxc/t2t``, ``cxc/sts``).
        library: the raw sources.
        split: ``validation`` or ``test``.
        metrics: names, or None for each task's own.

    Raises:
        UnknownName: no such task, part or metric.
        InvalidOption: a metric fits no task.
        DataError: a raw file is malformed.
    """
    requests: list[Request] = []
    skipped: dict[str, str] = {}
    refused: list[CxcEccvError] = []
    for one, parts, named in _selected(wanted, run, library, split, skipped):
        try:
            found, reasons = _of_task(run, one, parts, named, library, split, metrics)
        except (InvalidOption, SourceMissing) as error:
            refused.append(error)
            continue
        requests += found
        skipped |= reasons
    if metrics is not None and not requests and wanted == "all":
        raise InvalidOption(
            f"nothing to compute of the metrics {', '.join(metrics)}: {'; '.join(set(skipped.values()))}"
        )
    return requests, skipped, refused


def _of_task(
    run: Run,
    one: Task,
    parts: Sequence[str],
    named: bool,
    library: Library,
    split: str,
    metrics: Sequence[str] | None,
) -> tuple[list[Request], dict[str, str]]:
    requests: list[Request] = []
    reasons: dict[str, str] = {}
    try:
        plan = plan_of(one, metrics)
    except NotApplicable as error:
        if named:
            raise
        return [], {one.name: str(error)}
    for part in parts:
        try:
            requests.append(_request(run, one, part, plan, library, split))
        except (NotApplicable, SourceMissing) as error:
            if named and isinstance(error, SourceMissing):
                raise
            reasons[f"{one.name}/{part}"] = str(error)
    if named and not requests:
        raise InvalidOption(f"{one.name} cannot be computed: " + "; ".join(dict.fromkeys(reasons.values())))
    return requests, reasons


def _request(run: Run, one: Task, part: str, plan: Plan, library: Library, split: str) -> Request:
    variants = plan.parts[part]
    if not variants:
        raise NotApplicable(f"none of the metrics asked for is defined for {one.name}/{part}")
    reason = run.why_not(RATED_DIRECTIONS.get(part, part))
    if part in one.rated and run.kind == "rankings":
        reason = "rankings do not tell how similar rated pairs are"
    if reason is not None:
        raise NotApplicable(reason)
    needs = dict.fromkeys(variant.spec.needs for variant in variants)
    return Request(one, part, variants, {need: one.judged(need, library, split, part) for need in needs})


def _selected(
    wanted: str | Sequence[str], run: Run, library: Library, split: str, skipped: dict[str, str]
) -> Iterator[tuple[Task, Sequence[str], bool]]:
    """Task, parts, and whether the user named it; among all tasks, those of collections that the run is about."""
    if wanted == "all":
        held = collections_held([one.collection for one in tasks().values()], run, library, split)
        for one in tasks().values():
            if held[one.collection] is None:
                yield one, one.parts, False
            else:
                skipped[one.name] = str(held[one.collection])
        return
    chosen: dict[str, list[str]] = {}
    for name in [wanted] if isinstance(wanted, str) else wanted:
        task_name, _, part = name.partition("/")
        one = task(task_name)
        if part and part not in one.parts:
            raise UnknownName(f"direction of {task_name}", part, one.parts)
        chosen.setdefault(task_name, []).extend([part] if part else one.parts)
    yield from ((task(name), tuple(dict.fromkeys(parts)), True) for name, parts in chosen.items())
