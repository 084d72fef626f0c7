"""Evaluation on other labels: positives of chosen sources replace those of every task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.hashing import hash_content
from cxc_eccv.judgments.evidence.source import Thresholds, gather, list_sources, number_pairs
from cxc_eccv.judgments.flickr8k import FOUND, LINKED, NEGATIVE
from cxc_eccv.judgments.merging import merge, merged_qrels
from cxc_eccv.metrics.kinds import Spec, Variant
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.tasks.task import LABEL_FILES, NotApplicable, Task
from cxc_eccv.types import DIRECTIONS, IntArray, Judgments, find_positions
from cxc_eccv.types.provenance import LabelFacts

NEEDED_LABELS = {
    "labels": "labels with gains",
    "ratings": "labels with gains",
    "degrees": "labels with gains",
    "matches": "matches of categories",
    "rated": "rated pairs",
}
"""What metrics read (``Spec.reads``) that is no list of positives."""


def find_sources(sources: str | Sequence[str] | None, library: Library, split: str) -> tuple[str, ...]:
    """The sources of labels in place of those of the tasks, in their declared order; labels of models are refused.

    They are the named ones; without names the library's plain tables, as no task reads these.
    """
    if sources is None:
        sources = library.table_names
    elif isinstance(sources, str):
        sources = [sources]
    official = [name for name, source in list_sources(library).items() if source.official]
    if not sources:
        raise InvalidOption(f"sources (--sources) is empty; choose among {', '.join(official)}")
    for name in sources:
        if name not in official:
            raise UnknownName("source of labels", name, official)
        if list(sources).count(name) > 1:
            raise InvalidOption(f"sources (--sources) has {name} twice; name it once")
        if not _has_labels(library.split(split), name):
            raise InvalidOption(f"sources (--sources): {name} has no labels of the {split} split; leave it out")
    return tuple(name for name in official if name in sources)


def _has_labels(split: Split, source: str) -> bool:
    return any(gather(split, direction, source, Thresholds()) is not None for direction in DIRECTIONS)


def describe_sources(sources: Sequence[str], split: Split) -> LabelFacts:
    """The sources, and facts about each label file."""
    facts = {}
    for name in sources:
        file = split.labels(name) if name in split.library.label_names else None
        if file is not None:
            facts[name] = replace(file.summary, sha256=hash_content(file.path))
    return LabelFacts(sources=tuple(sources), policy="union", files=facts)


def find_repeats(judged: Iterable[tuple[str, str, Judgments]]) -> dict[str, str]:
    """Part to the earlier one whose queries, gallery and positives it repeats, from key, direction and judgments."""
    first_keys: dict[tuple[object, ...], str] = {}
    repeats = {}
    for key, direction, judgments in judged:
        first_key = first_keys.setdefault((direction, *_read_content(judgments)), key)
        if first_key != key:
            repeats[key] = first_key
    return repeats


def _read_content(judgments: Judgments) -> list[object]:
    """The values of the fields, arrays as their bytes."""
    values = [getattr(judgments, field.name) for field in fields(judgments)]
    return [value.tobytes() if isinstance(value, np.ndarray) else value for value in values]


def keep_labels(sources: str | Sequence[str] | None, library: Library) -> str:
    """What a user leaves out so that tasks keep their own labels: the named sources, else the library's tables."""
    if sources is not None:
        return "leave out sources (--sources)"
    tables = library.table_names
    noun = "table" if len(tables) == 1 else "tables"
    return f"leave out the {noun} of labels {', '.join(tables)} (--labels)"


def why_not_relabelled(task: Task, remedy: str = "") -> str | None:
    """Why other labels cannot replace those of a task, with the remedy; None if they can."""
    for reads in ("labels", "matches"):
        if task.parts_with(reads):
            return _refusal(reads, remedy)
    if not task.collection.is_default:
        return f"sources of labels are for COCO's pairs, and this task has those of {task.collection.title}; {remedy}"
    return None


def _refusal(reads: str, remedy: str) -> str:
    return f"sources of labels replace positives, but this needs {NEEDED_LABELS[reads]}; {remedy}"


def drop_other_labels(
    task: Task, parts: Mapping[str, tuple[Variant[Spec], ...]], remedy: str
) -> tuple[dict[str, tuple[Variant[Spec], ...]], dict[str, str]]:
    """The metrics of each part that need only positives; and key to reason for the other parts and metrics."""
    fitting = {}
    reasons = {}
    for part, variants in parts.items():
        fitting[part] = tuple(variant for variant in variants if variant.spec.reads not in NEEDED_LABELS)
        others = [variant for variant in variants if variant.spec.reads in NEEDED_LABELS]
        if others and not fitting[part]:
            reasons[f"{task.name}/{part}"] = _refusal(others[0].spec.reads, remedy)
            continue
        for variant in others:
            reasons[f"{task.name}/{part}/{variant.label}"] = _refusal(variant.spec.reads, remedy)
    return fitting, reasons


def relabel(task: Task, sources: tuple[str, ...]) -> Task:
    """The task with the labels of the sources, for its queries and within its gallery; as it is if they cannot be.

    Metrics of judged items read what the sources say, negatives too.
    """
    if not sources or why_not_relabelled(task) is not None:
        return task

    def merge_positives(split: Split, direction: str) -> Judgments:
        """The judgments, which many runs share."""
        key = ("relabelled", task.name, direction, sources)
        return split.cached(key, lambda: _merge_for(split, task, direction, sources))

    def judge(split: Split, direction: str) -> Judgments:
        return _find_verdicts(split, direction, merge_positives(split, direction), sources)

    parts = [replace(part, ranks=merge_positives, verdicts=judge) if part.ranks else part for part in task.parts]
    return replace(task, parts=tuple(parts))


def _find_verdicts(split: Split, direction: str, positives: Judgments, sources: tuple[str, ...]) -> Judgments:
    """All items that the sources judge for the queries of ``positives``: negatives, original links, other matches."""
    if positives.query_folds is not None:
        raise NotApplicable("metrics of judged items rank one gallery, but this task has folds")
    pairs = merge(split, direction, sources=sources)
    queries = pairs.query_ids[pairs.queries]
    items = pairs.gallery_ids[pairs.items]
    linked_queries, linked_items = find_positives(split, direction, ("coco",))
    is_linked = np.isin(
        number_pairs(queries, items, pairs.query_ids, pairs.gallery_ids),
        number_pairs(linked_queries, linked_items, pairs.query_ids, pairs.gallery_ids),
    )
    verdicts = np.full(queries.size, NEGATIVE)
    verdicts[pairs.positive] = FOUND
    verdicts[pairs.positive & is_linked] = LINKED
    is_ranked = np.isin(queries, positives.query_ids)
    judged = Judgments.from_pairs(
        positives.query_ids,
        positives.gallery_ids,
        queries[is_ranked],
        items[is_ranked],
        gains=verdicts[is_ranked],
        without_self=positives.without_self,
    )
    return replace(judged, unreachable=positives.unreachable)


def _merge_for(split: Split, task: Task, direction: str, sources: tuple[str, ...]) -> Judgments:
    """Merged positives within each query's fold; unreachable ones count if all sources of the task are named."""
    judged = task.judgments(split, direction)
    queries, items = split.cached(("positives", direction, sources), lambda: find_positives(split, direction, sources))
    rows, has_query = find_positions(queries, judged.query_ids)
    columns, has_item = find_positions(items, judged.gallery_ids)
    query_folds, gallery_folds = judged.folds
    is_ranked = has_query & has_item & (query_folds[rows] == gallery_folds[columns])
    all_named = set(task.label_sources) <= {*sources, LABEL_FILES}
    unreachable = judged.unreachable if all_named else np.zeros_like(judged.unreachable)
    n_positives = np.bincount(rows[is_ranked], minlength=judged.query_ids.size) + unreachable
    has_positives = n_positives > 0
    if not has_positives.any():
        raise NotApplicable(f"{', '.join(sources)} have no positive of its queries")
    merged = Judgments.from_pairs(
        judged.query_ids[has_positives],
        judged.gallery_ids,
        queries[is_ranked],
        items[is_ranked],
        without_self=judged.without_self,
        query_folds=None if judged.query_folds is None else query_folds[has_positives],
        gallery_folds=judged.gallery_folds,
    )
    return replace(merged, unreachable=unreachable[has_positives])


def find_positives(split: Split, direction: str, sources: Sequence[str]) -> tuple[IntArray, IntArray]:
    """(P,) query ids and (P,) item ids of the positives of the queries that any of the sources searched."""
    judged = merged_qrels(split, direction, sources=sources)
    return judged.query_ids[judged.rows], judged.gallery_ids[judged.indices]
