"""The content of a report for console, Markdown and HTML: tables, caveats, and what the numbers were computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import pyarrow as pa

from cxc_eccv.registry import tasks
from cxc_eccv.report.best_ranks import COCO, BestRanks, best_ranks
from cxc_eccv.report.charts import LABELS, Curve, Verdicts, curve_panels, rank_bins, verdicts
from cxc_eccv.report.example_table import no_examples
from cxc_eccv.report.query_cards import QueryCard, example_cards, reason_of
from cxc_eccv.report.report_data import ReportData
from cxc_eccv.terminal import visible
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.result import WITHOUT_RESULTS, group_by_reason
from cxc_eccv.types.strict_json import JsonObject
from cxc_eccv.wording import (
    Shown,
    direction_name,
    explain_intervals,
    fold_deviations,
    judge_caution,
    list_names,
    metric_name,
    name_data,
    task_name,
    unit_of,
)

GROUPS = {
    "label_dependent": (
        "Most label-dependent",
        "A right item is in the top ten, and the gap between its rank and the best rank under the original COCO links "
        "is largest: COCO counts an error where another label calls the item right.",
    ),
    "worst": (
        "Worst",
        "The best positive under all labels is ranked lowest: no label excuses these errors.",
    ),
    "plain": (
        "Plain sample",
        "Spread evenly over the other queries, whatever their ranks.",
    ),
}
"""Group of example queries to its title and how its queries were chosen."""

PROVENANCE_TITLES = {
    "command": "Command",
    "model": "Model",
    "run file": "Run file",
    "run sha256": "Run file, sha256",
    "run kind": "Run",
    "split": "Split",
    "similarity": "Similarity",
    "similarity from": "Similarity chosen by",
    "data edition": "Data edition",
    "data version": "Data version",
    "data fingerprint": "Data, sha256 over all raw files",
    "package name": "Package",
    "package version": "Package version",
    "numpy": "NumPy version",
    "seed": "Seed",
    "confidence": "Confidence of the intervals",
    "intervals": "Intervals",
    "run images count": "Images of the run",
    "run images dimensions": "Dimensions of an image's vector",
    "run images outside the tasks": "Images that no task needs",
    "run captions count": "Captions of the run",
    "run captions dimensions": "Dimensions of a caption's vector",
    "run captions outside the tasks": "Captions that no task needs",
    "entailment labels pairs": "Entailment labels",
    "entailment labels against original links": "Entailment labels against the original links",
    "entailment labels against cxc or eccv caption": "Entailment labels against CxC or ECCV Caption",
    "trained on": "Training data",
    "trained on from": "Training data stated by",
}
"""Titles of entries of the provenance, in the order shown; other entries follow under their names."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """All numbers of one task, as tables with a row per metric and a column per direction."""

    task: str
    title: str
    description: str
    main: str
    tables: tuple[tuple[tuple[Shown, ...], ...], ...]
    whole: tuple[Shown, ...]

    @property
    def is_wide(self) -> bool:
        """Whether its card takes the whole width, for more than two directions."""
        return self._n_parts > 2

    @property
    def over(self) -> str:
        """The parts that the numbers over the whole task average, in words."""
        return "both directions" if self._n_parts == 2 else "all parts"

    @property
    def _n_parts(self) -> int:
        return sum(len(table[0]) for table in self.tables)


@dataclass(frozen=True, slots=True)
class Caveat:
    """Ties and coverage of one direction of a task; the coverage is empty if all pairs have a label."""

    task: str
    direction: str
    n_queries: int
    ties: int
    coverage: tuple[tuple[str, float], ...]

    @property
    def coverage_text(self) -> str:
        """The coverage in words."""
        return ", ".join(f"{metric} {100 * covered:.1f}%" for metric, covered in self.coverage) or "all"


def caveat_of(results: Sequence[Result]) -> Caveat:
    """Ties and coverage of the results of one direction of a task."""
    n_queries = max(row.n_queries for row in results)
    ties = max(row.ties for row in results)
    covered = [(metric_name(row.metric, in_full=True), row.coverage) for row in results if row.coverage is not None]
    return Caveat(results[0].task, results[0].direction, n_queries, ties, tuple(covered))


@dataclass(frozen=True, eq=False)
class Page:
    """The content of a report; each part is computed when it is first needed, since the console shows only a few."""

    report: ReportData
    example_table: pa.Table = field(default_factory=lambda: no_examples("the report was made without its run"))

    @classmethod
    def of(cls, report: ReportData) -> Page:
        """The content of a report with its own examples, if it has some."""
        return cls(report) if report.examples is None else cls(report, report.examples)

    @property
    def name(self) -> str:
        """The name of the report, safe to show."""
        return visible(self.report.name)

    @property
    def doubts(self) -> list[str]:
        """What makes the numbers suspect, a sentence each."""
        return [visible(sentence) for sentence in self.report.doubts.values()]

    @property
    def restriction(self) -> str:
        """The part of the split that was scored, with a caution; empty for a whole split."""
        part = self.report.restriction
        return visible(f"{part}. Do not compare these numbers with numbers on the whole split.") if part else ""

    @property
    def missing(self) -> str:
        """How many queries of a task count 0 at most, as they have no results, in words; empty if there are none."""
        most: dict[str, tuple[int, int]] = {}
        for row in self.report.results:
            number = row.parameters.get(WITHOUT_RESULTS)
            if isinstance(number, int):
                most[row.direction] = max(most.get(row.direction, (0, 0)), (number, row.n_queries))
        parts = [f"up to {number:,} of {n:,} {direction_name(way)}" for way, (number, n) in most.items()]
        return visible(f"counted as 0 (--missing zero) in each task, {list_names(parts)}") if parts else ""

    @property
    def labels(self) -> str:
        """The labels that replace those of the tasks, with a caution; empty if every task uses its own."""
        if not self.report.labels:
            return ""
        verb = "decides" if len(self.report.provenance.labels.sources) == 1 else "decide together"
        note = f"{verb} what is positive in every task, in place of its own labels"
        twins = "; ".join(self._twins)
        once = f" Shown once, as queries and positives are the same: {twins}." if twins else ""
        return visible(f"{self.report.labels} {note}. Do not compare these numbers with numbers on other labels.{once}")

    @property
    def _twins(self) -> list[str]:
        """The parts with the same queries and positives, those of two tasks together."""
        parts: dict[tuple[str, str], list[str]] = {}
        for part, earlier in self.report.repeated_parts.items():
            (task, _, direction), (first, _, _) = part.partition("/"), earlier.partition("/")
            parts.setdefault((first, task), []).append(direction)
        return [f"{task_name(first)} and {task_name(task)}, {list_names(ds)}" for (first, task), ds in parts.items()]

    @cached_property
    def results(self) -> list[Result]:
        """The results to show: one for parts that have the same queries and positives."""
        shown = set(self.report.without_repeats(row.key for row in self.report.results))
        return [row for row in self.report.results if row.key in shown]

    @property
    def judge(self) -> str:
        """The classifier that labelled pairs without a label, with cautions; empty without one."""
        judge = self.report.provenance.unjudged
        said = [judge_caution(self.report.results, self.report.provenance.split)]
        if judge is not None:
            judged = f"{judge.model} judged {sum(judge.pairs.values()):,} pairs that have no label."
            said = [judged, *judge.cautions, *said]
        return visible(" ".join(filter(None, said)))

    @property
    def data(self) -> str:
        """The split and the edition of the data, to be shown."""
        return visible(name_data(self.report.results, self.report.provenance))

    @property
    def first_line(self) -> str:
        """What was scored, and on which data."""
        return ", ".join(filter(None, [self.name, self.data]))

    @property
    def confidence(self) -> float | None:
        """The confidence of the intervals, or None."""
        facts = self.report.provenance
        return facts.confidence if facts.intervals or facts.confidence else 0.95

    @property
    def interval_methods(self) -> str:
        """How the intervals were made, by metric if not all in one way."""
        return explain_intervals(self.results)

    @cached_property
    def scores(self) -> list[TaskScores]:
        """A card per task, in the report's order."""
        names = dict.fromkeys(task for task, _ in self._columns)
        of_tasks = {name: [rows for (task, _), rows in self._columns.items() if task == name] for name in names}
        return [_scores_of(name, rows, self.report.labels) for name, rows in of_tasks.items()]

    @property
    def bounded(self) -> bool:
        """Whether the report has bounds over unjudged pairs."""
        return any(row.bounds is not None for row in self.report.results)

    @property
    def expects(self) -> bool:
        """Whether the bounds come with expected values."""
        return any(row.bounds is not None and row.bounds.expected is not None for row in self.report.results)

    @property
    def estimates(self) -> bool:
        """Whether a number is estimated from people's answers."""
        return any(row.bounds is not None and row.bounds.estimate is not None for row in self.report.results)

    @cached_property
    def headline(self) -> list[tuple[str, str, list[Shown]]]:
        """Task, metric and results: the main metric and recall at 1 of every task, if they are fractions."""
        groups: dict[tuple[str, str], list[Shown]] = {}
        for card in self.scores:
            for row in [row for table in card.tables for row in table] + [(row,) for row in card.whole]:
                metric = row[0].metric
                if metric in (card.main, "recall_at_1") and unit_of(metric) == "percent":
                    groups.setdefault((card.task, metric), []).extend(row)
        return [(task, metric, rows) for (task, metric), rows in groups.items()]

    @cached_property
    def panels(self) -> dict[str, list[Curve]]:
        """Recall over k of each task."""
        return curve_panels(self.report, self._ranks)

    @cached_property
    def bins(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Task, direction and the number of queries in each range of ranks."""
        return rank_bins(self._ranks)

    @property
    def bin_labels(self) -> tuple[str, ...]:
        """Ranges of ranks; the last one only if a ranking ends early."""
        return LABELS if any(counts[-1] for _, _, counts in self.bins) else LABELS[:-1]

    @cached_property
    def verdicts(self) -> Mapping[str, Sequence[Verdicts]]:
        """How far the labels disagree, per direction and depth; empty if all tasks use the same labels."""
        return {} if self.report.labels else verdicts(self._ranks)

    @property
    def by_coco(self) -> list[str]:
        """Directions that COCO 5K ranks: their queries have a best rank under the original links."""
        return [key.partition("/")[2] for key in self._ranks if key.startswith(f"{COCO}/") and not self.report.labels]

    @cached_property
    def cards(self) -> list[QueryCard]:
        """All example queries."""
        return example_cards(self.example_table)

    @property
    def examples(self) -> dict[str, list[tuple[str, str, list[QueryCard]]]]:
        """Direction to its groups of example queries: title, how they were chosen, and the queries."""
        groups: dict[str, list[tuple[str, str, list[QueryCard]]]] = {}
        for (direction, group), cards in groupby(self.cards, key=lambda card: (card.direction, card.group)):
            groups.setdefault(direction, []).append((*GROUPS[group], list(cards)))
        return groups

    @property
    def no_examples(self) -> str:
        """Why no query is shown; empty if some are."""
        return reason_of(self.example_table)

    @cached_property
    def caveats(self) -> list[Caveat]:
        """Ties and coverage of every task and direction, in the report's order."""
        return [caveat_of(rows) for (_, direction), rows in self._columns.items() if direction]

    @property
    def skipped(self) -> list[tuple[str, list[str]]]:
        """Each reason with what was skipped for it."""
        return list(group_by_reason(self.report.skipped).items())

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Title and text of every entry of the provenance except the raw files."""
        entries = dict(_flatten(to_json(self.report.provenance)))
        for name in [name for name in entries if name.startswith(("data files ", "data modified "))]:
            del entries[name]
        known = [(title, entries.pop(name)) for name, title in PROVENANCE_TITLES.items() if name in entries]
        return known + [(name[0].upper() + name[1:], text) for name, text in entries.items()]

    @property
    def files(self) -> list[tuple[str, str]]:
        """Catalog name and sha256 of every raw file."""
        return list(self.report.provenance.data.files.items())

    @property
    def modified(self) -> list[tuple[str, str, str]]:
        """Raw files that differ from the catalog: name, expected sha256 and actual sha256."""
        return [(name, file.expected, file.found) for name, file in self.report.provenance.data.modified.items()]

    @cached_property
    def _ranks(self) -> dict[str, BestRanks]:
        ranks = best_ranks(self.report)
        repeated = self.report.repeated_parts
        return {key: best for key, best in ranks.items() if repeated.get(key) not in ranks}

    @cached_property
    def _columns(self) -> dict[tuple[str, str], list[Shown]]:
        """Task and direction to their results, in the report's order."""
        columns: dict[tuple[str, str], list[Shown]] = {}
        for row in fold_deviations(self.results):
            columns.setdefault((row.task, row.direction), []).append(row)
        return columns


def _scores_of(name: str, columns: Sequence[Sequence[Shown]], labels: str) -> TaskScores:
    task = tasks().get(name)
    description, main = (task.description, task.main_metric) if task else ("", "")
    if labels:
        description = visible(
            f"The queries and galleries of {task_name(name)}; queries without a positive are left out. A pair is "
            f"positive if any of these labels says so: {labels}."
        )
    groups: dict[tuple[str, ...], list[Sequence[Shown]]] = {}
    for column in columns:
        if column[0].direction:
            groups.setdefault(tuple(row.metric for row in column), []).append(column)
    tables = tuple(tuple(zip(*alike, strict=True)) for alike in groups.values())
    whole = tuple(row for column in columns for row in column if not row.direction)
    return TaskScores(name, task_name(name), description, main, tables, whole)


def _flatten(entries: JsonObject, path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in entries.items():
        place = f"{path} {name}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flatten(value, place)
        elif value is not None:
            yield visible(place), visible(", ".join(map(str, value)) if isinstance(value, list | tuple) else value)
