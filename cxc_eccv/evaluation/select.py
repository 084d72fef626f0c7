"""Which tasks, parts and metrics a run is asked for, and why others cannot be computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cxc_eccv.errors import CxcEccvError, DataError, InvalidOption, SourceMissing, UnknownName
from cxc_eccv.evaluation.run_ids import Asked
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.registry import metric_variants, task, tasks
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.collection import COCO, Collection
from cxc_eccv.tasks.task import RATED_DIRECTIONS, NotApplicable, Task
from cxc_eccv.types import Judgments, RatedPairs, positions_of

__all__ = ["Plan", "Request", "Variant", "collections_held", "plan_of", "requested"]


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


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A metric with the parameters of one call.

    Attributes:
        spec: the metric's declaration.
        parameters: keyword arguments of the call.
        shown: whether the report lists it; otherwise it is computed for another metric's sake.
    """

    spec: Spec
    parameters: dict[str, Any]
    shown: bool = True

    @property
    def label(self) -> str:
        """The name in report keys."""
        return self.spec.label(**self.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The metrics of one task.

    Attributes:
        parts: direction or kind of rated pairs to its metrics; a part may have none.
        whole: computed once, over all directions.
    """

    parts: Mapping[str, tuple[Variant, ...]]
    whole: tuple[Spec, ...]


def plan_of(task: Task, metrics: Sequence[str] | None) -> Plan:
    """The metrics that the user named, or the task's own.

    Args:
        task: the declaration.
        metrics: names as in :func:`cxc_eccv.registry.metric_variants`, or None.

    Raises:
        UnknownName: no such metric.
        NotApplicable: none of the metrics is defined for the task.

    Example:
        >>> from cxc_eccv.registry import task
        >>> plan = plan_of(task("cxc"), ["recall_at_k", "spearman_all_pairs"])
        >>> {part: [variant.label for variant in variants] for part, variants in plan.parts.items()}["t2t"]
        ['recall_at_1', 'recall_at_5', 'recall_at_10']
        >>> [variant.label for variant in plan.parts["sts"]]
        ['spearman_all_pairs']
    """
    named = [metric_variants(name) for name in (metrics if metrics is not None else (*task.metrics, *task.whole))]
    whole = [spec for spec, _ in named if spec.needs == "scores" and spec.name in task.whole]
    variants = [Variant(spec, parameters) for spec, calls in named for parameters in calls if spec.needs != "scores"]
    shown = {variant.label for variant in variants}
    for spec in whole:
        inputs = [(label, metric_variants(label)) for label in spec.inputs if label not in shown]
        variants += [Variant(one, calls[0], shown=False) for _, (one, calls) in inputs]
    fitting = [one for one in variants if one.spec.needs != "top_k" or one.spec.gains == task.gains]
    parts = {
        part: tuple({one.label: one for one in fitting if part in task.offers.get(one.spec.needs, ())}.values())
        for part in task.parts
    }
    if not any(parts.values()):
        raise NotApplicable(f"none of the metrics {', '.join(metrics or ())} is defined for {task.name}")
    return Plan(parts, tuple(whole))


HELD_SHARE = 0.5


def collections_held(
    collections: Iterable[Collection], run: Run, library: Library, split: str
) -> dict[Collection, str | None]:
    """Collection to None where the run is about it, else to the reason why it is not.

    A run is about a collection when it holds more than half of its images, or of its captions where it has no images.
    One that is about none counts as one on COCO, so that the ids which COCO's tasks miss are named.

    Args:
        collections: which to look at, COCO among them.
        run: the model's results.
        library: the raw sources.
        split: ``validation`` or ``test``.

    Example:
        >>> from cxc_eccv.runs import RankingsRun
        >>> from cxc_eccv.tasks.collection import FLICKR30K
        >>> run = RankingsRun.from_dicts(t2i={7: [1, 2]})
        >>> held = collections_held([COCO, FLICKR30K], run, Library("sample"), "test")
        >>> held[COCO] is None, held[FLICKR30K]
        (True, 'Flickr30k is not on this machine; name the task to fetch it')
    """
    reasons = {one: _reason(one, run, library, split) for one in dict.fromkeys(collections) if one is not COCO}
    if any(reason is None for reason in reasons.values()):
        return {COCO: _reason(COCO, run, library, split), **reasons}
    return {COCO: None, **reasons}


def _reason(collection: Collection, run: Run, library: Library, split: str) -> str | None:
    if not collection.at_hand(library):
        return f"{collection.name} is not on this machine; name the task to fetch it"
    try:
        content = collection.content(library, split)
    except DataError as error:
        return str(error)
    side = "images" if run.ids("images").size else "captions"
    wanted = content.image_ids if side == "images" else content.caption_ids
    found = int(positions_of(wanted, run.ids(side))[1].sum())
    if found > HELD_SHARE * wanted.size:
        return None
    return f"the run holds {found:,} of the {wanted.size:,} {side} of {collection.name}"
