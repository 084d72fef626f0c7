"""What the Markdown and the HTML report show, gathered once for both: tables, caveats, where the numbers come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from cxc_eccv.report.charts import CurvePanel, RankBins, best_ranks, curve_panels, rank_bins
from cxc_eccv.report.examples import COCO, QueryCard, Verdicts, example_cards, reason_of, verdicts
from cxc_eccv.report.score_tables import TaskScores, first_ranks, task_scores
from cxc_eccv.report.wording import metric_name
from cxc_eccv.shown import visible
from cxc_eccv.types import Report, Result, group_by_reason

__all__ = [
    "Caveat",
    "ExampleGroup",
    "Page",
    "caveats",
    "facts",
    "files",
    "modified",
    "page_of",
    "run_name",
]

GROUPS = {
    "label_dependent": (
        "Most label-dependent",
        "A right item stands in the top ten, and the gap between its rank and the best rank under the original COCO "
        "links is largest: what COCO counts as an error, another label calls right.",
    ),
    "worst": (
        "Worst",
        "The best positive under all labels stands furthest down: no label excuses these.",
    ),
    "plain": (
        "Plain sample",
        "Spread evenly over the other queries, chosen without a look at their ranks.",
    ),
}
"""Group of shown queries to its title and how its queries were chosen."""


@dataclass(frozen=True, slots=True)
class ExampleGroup:
    """Shown queries of one direction that were chosen for the same reason."""

    direction: str
    title: str
    reason: str
    cards: tuple[QueryCard, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a report.

    Attributes:
        name: of the model or its file; may be empty.
        split, edition: of the data.
        confidence: of the intervals, or None.
        scores: a card per task.
        first_ranks: recall at 1 of every task and direction that has it.
        panels: recall over k per task.
        bins: distribution of ranks per task and direction.
        verdicts: where the labels disagree, per direction and depth.
        examples: shown queries.
        no_examples: why there are none; empty where there are some.
        caveats: ties and coverage.
        skipped: reason and what was skipped for it.
        facts, files: origin of the numbers.
        modified: raw files that are not the catalog's, with the sha256 expected and found.
        by_coco: directions that COCO 5K ranks, so that a query has a best rank under the original links.
    """

    name: str
    split: str
    edition: str
    confidence: float | None
    scores: Sequence[TaskScores]
    first_ranks: Sequence[Result]
    panels: Sequence[CurvePanel]
    bins: Sequence[RankBins]
    verdicts: Mapping[str, Sequence[Verdicts]]
    examples: Sequence[ExampleGroup]
    no_examples: str
    caveats: Sequence[Caveat]
    skipped: Sequence[tuple[str, list[str]]]
    facts: Sequence[tuple[str, str]]
    files: Sequence[tuple[str, str]]
    modified: Sequence[tuple[str, str, str]]
    by_coco: Sequence[str]

    @property
    def cards(self) -> list[QueryCard]:
        """All shown queries."""
        return [card for group in self.examples for card in group.cards]


def page_of(report: Report, examples: pa.Table) -> Page:
    """Gather what there is to show.

    Args:
        report: its per-query values may be absent; what is drawn from them is then left out.
        examples: of :func:`cxc_eccv.report.examples.examples.collect_examples`.

    Example:
        >>> from cxc_eccv.report.examples.table import no_examples
        >>> report = Report((Result("cxc", "t2t", "recall_at_1", 0.5, 2),), {}, {"split": "test"})
        >>> page = page_of(report, no_examples("none were kept"))
        >>> page.split, page.first_ranks[0].value, page.no_examples
        ('test', 0.5, 'none were kept')
    """
    ranks = best_ranks(report)
    found = verdicts(ranks)
    return Page(
        name=run_name(report),
        split=str(report.provenance.get("split", "")),
        edition=str((report.provenance.get("data") or {}).get("edition", "")),
        confidence=report.provenance.get("confidence", 0.95),
        scores=task_scores(report),
        first_ranks=first_ranks(report),
        panels=curve_panels(report, ranks),
        bins=rank_bins(ranks),
        verdicts={direction: list(rows) for direction, rows in groupby(found, key=lambda one: one.direction)},
        examples=_groups(example_cards(examples)),
        no_examples=reason_of(examples),
        caveats=caveats(report),
        skipped=list(group_by_reason(report.skipped).items()),
        facts=facts(report),
        files=files(report),
        modified=modified(report),
        by_coco=[key.partition("/")[2] for key in ranks if key.startswith(f"{COCO}/")],
    )


def _groups(cards: Sequence[QueryCard]) -> list[ExampleGroup]:
    grouped = groupby(cards, key=lambda card: (card.direction, card.group))
    return [ExampleGroup(direction, *GROUPS[group], tuple(own)) for (direction, group), own in grouped]


TITLES = {
    "command": "Command",
    "model": "Model",
    "run file": "Run file",
    "run sha256": "Run file, sha256",
    "run kind": "Run",
    "split": "Split",
    "similarity": "Similarity",
    "similarity from": "Similarity, said by",
    "data edition": "Data edition",
    "data version": "Data version",
    "data fingerprint": "Data, sha256 over all raw files",
    "package name": "Package",
    "package version": "Package version",
    "numpy": "NumPy version",
    "seed": "Seed",
    "confidence": "Confidence of the intervals",
}
"""Entries that have a name of their own, in the order shown; others follow under their names."""


def facts(report: Report) -> list[tuple[str, str]]:
    """Every entry of the provenance but the raw files (see :func:`files`, :func:`modified`), as title and text.

    Example:
        >>> facts(Report((), {}, {"seed": 0, "split": "test", "run": {"images": {"count": 5}}}))
        [('Split', 'test'), ('Seed', '0'), ('Run images count', '5')]
    """
    entries = dict(_flattened(report.provenance))
    for name in [name for name in entries if name.startswith(("data files ", "data modified "))]:
        del entries[name]
    known = [(title, entries.pop(name)) for name, title in TITLES.items() if name in entries]
    return known + [(name[0].upper() + name[1:], text) for name, text in entries.items()]


def files(report: Report) -> list[tuple[str, str]]:
    """Catalog name and sha256 of every raw file.

    Example:
        >>> files(Report((), {}, {"data": {"files": {"sts_test": "ab12"}}}))
        [('sts_test', 'ab12')]
    """
    found = (report.provenance.get("data") or {}).get("files") or {}
    return [(str(name), str(digest)) for name, digest in found.items()]


def modified(report: Report) -> list[tuple[str, str, str]]:
    """Raw files that are not the catalog's: name, the sha256 expected and the one found.

    Example:
        >>> modified(Report((), {}, {"data": {"modified": {"sts_test": {"expected": "ab", "found": "cd"}}}}))
        [('sts_test', 'ab', 'cd')]
    """
    found = (report.provenance.get("data") or {}).get("modified") or {}
    return [(str(name), str(hashes["expected"]), str(hashes["found"])) for name, hashes in found.items()]


def run_name(report: Report) -> str:
    """What the report is about: the model's name, else the run file's, else nothing.

    Example:
        >>> run_name(Report((), {}, {"run": {"file": "clip.npz"}}))
        'clip.npz'
    """
    run = report.provenance.get("run") or {}
    return visible(report.provenance.get("model") or run.get("file") or "")


def _flattened(entries: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in entries.items():
        place = f"{path} {name}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flattened(value, place)
        elif value is not None:
            yield visible(place), visible(", ".join(map(str, value)) if isinstance(value, list | tuple) else value)


@dataclass(frozen=True, slots=True)
class Caveat:
    """One direction of one task.

    Attributes:
        task, direction: what was scored.
        n_queries: queries behind the largest of its numbers.
        ties: queries in which an item tied with a positive and was counted as ranked above it.
        coverage: metric to the share of the pairs it needs that carry a label; empty where all do.
    """

    task: str
    direction: str
    n_queries: int
    ties: int
    coverage: tuple[tuple[str, float], ...]

    @property
    def coverage_text(self) -> str:
        """The coverage in words."""
        return ", ".join(f"{metric} {100 * covered:.1f} %" for metric, covered in self.coverage) or "all"


def caveats(report: Report) -> list[Caveat]:
    """One row per task and direction, in the report's order.

    Example:
        >>> from cxc_eccv.types import Result
        >>> caveats(Report((Result("entailment", "i2t", "entail_at_1", 0.5, 9, ties=2, coverage=0.25),), {}, {}))
        [Caveat(task='entailment', direction='i2t', n_queries=9, ties=2, coverage=(('Entail@1', 0.25),))]
    """
    rows = []
    for key in dict.fromkeys((result.task, result.direction) for result in report.results if result.direction):
        own = [result for result in report.results if (result.task, result.direction) == key]
        covered = tuple((metric_name(one.metric), one.coverage) for one in own if one.coverage is not None)
        rows.append(Caveat(*key, max(one.n_queries for one in own), max(one.ties for one in own), covered))
    return rows
