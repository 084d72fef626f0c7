"""Models in their places among published ones: the rows of both, and how they are shown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby

import numpy as np

from cxc_eccv.comparison.pairing import collect_doubts
from cxc_eccv.comparison.published import PublishedTable, both_directions, is_fraction
from cxc_eccv.errors import InvalidOption
from cxc_eccv.presentation import ShownResult
from cxc_eccv.registry import metric_labelled, task
from cxc_eccv.report import Report
from cxc_eccv.sources.catalog import OFFICIAL, describe_data
from cxc_eccv.tables import MISSING, Cell, RowOrder, Table
from cxc_eccv.terminal import visible
from cxc_eccv.types.provenance import DataFacts
from cxc_eccv.types.result import SPREAD
from cxc_eccv.types.training_data import name_collections
from cxc_eccv.wording import heading_of, list_names, ordinal, show_value

LONGEST_NAME = 32
"""A longer name of a user's model stands below the table."""

SEEN = "†"
"""Beside a user's model that was trained on photographs or captions of COCO or Flickr30k."""

PUBLISHED_DATA = describe_data(DataFacts(edition=OFFICIAL), "test")
"""What published models were scored on; other reports cannot be compared with them."""

NEIGHBOURS = 2
"""Published models shown on each side of a user's model, and below the first."""

YOUR_MODELS = "your models"

MOST_COLUMNS = 14
"""As many columns as fit a page; wider tables continue below."""


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of a model by key, as the table prints them; ranks and sums of a user's model are in full.

    A user's means over both directions are rounded once, from the values in full.

    ``trained_on`` is what a user's model was trained on, if photographs or captions of COCO or Flickr30k are among it.
    ``intervals`` are those of its report at its ``confidence``; the ends of a mean over both directions are the means
    of the ends.
    """

    model: str
    published: bool
    values: Mapping[str, float]
    deviations: Mapping[str, float]
    trained_on: str = ""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    confidence: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Joined(ShownResult):
    """A published table with the rows of a user's models, best first by one metric; models without it come last.

    Attributes:
        table: the published table.
        keys: the metrics that the user's models have: over both directions if possible, else of single ones.
        by: the main metric of the table's task if it is one of these, else the first of them; empty if there is none.
        rows: all models. With equal values, published ones come first.
        others: what the models that are not published are called.
        doubts: name of each of the user's models whose numbers are suspect to the sentences that say why.
    """

    table: PublishedTable
    keys: tuple[str, ...]
    by: str
    rows: tuple[Row, ...]
    others: str = YOUR_MODELS
    doubts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The paper's name."""
        return f"Published models of {self.table.title}"

    def tables(self) -> list[Table]:
        """The main metric and R@1 of the user's models, of the first models, and of those next to the user's."""
        main = self.by.rpartition("/")[2]
        shown = [key for key in (self.by, *self.keys) if key and key.rpartition("/")[2] in (main, "recall_at_1")]
        keys = tuple(dict.fromkeys(shown))
        first, *_ = replace(self, keys=keys).all_tables()
        if not first.rows:
            return [first]
        elsewhere = f"With --output, compare.html has all {len(self.rows)} models and every metric."
        rows = self._keep_near(first.rows, keys)
        return [replace(first, rows=rows, elsewhere=elsewhere, highlighted=frozenset(), order=None)]

    def _keep_near(self, cells: Sequence[Sequence[str | Cell]], keys: Collection[str]) -> list[Sequence[str | Cell]]:
        """The rows of the first models and of those next to the user's; dots stand for others."""
        own = [place for place, row in enumerate(self._list_rows(keys)) if not row.published]
        steps = range(-NEIGHBOURS, NEIGHBOURS + 1)
        near = {place + step for place in (0, *own) for step in steps}
        rows: list[Sequence[str | Cell]] = []
        for place, row in enumerate(cells):
            if place in near:
                rows.append(row)
            elif len(rows[-1]) > 1:
                rows.append(["..."])
        return rows

    def all_tables(self) -> list[Table]:
        """A row per model; best values and the models that are not published in bold; wide tables continue below."""
        subtitle = self.table.printed_in
        if not self.keys:
            notes = ["no metric in common"]
            return [Table((), (), self.title, subtitle, notes, data=PUBLISHED_DATA, doubts=self.doubts)]
        parts = _split_columns(self.keys)
        shown = self._shorten_names()
        tables = []
        for place, keys in enumerate(parts, 1):
            title = f"{self.title}, {place} of {len(parts)}" if len(parts) > 1 else self.title
            header = [("", "", ""), ("", "", "rank"), *map(heading_of, keys)]
            own = (index for index, row in enumerate(self._list_rows(keys)) if not row.published)
            table = Table(
                header,
                list(self._make_rows(keys, shown)),
                title,
                subtitle,
                highlighted=frozenset(own),
                order=self._order_columns(keys),
                data=PUBLISHED_DATA,
            )
            tables.append(table)
        tables[0] = replace(tables[0], lead=self.describe_ranks())
        bold = f"The best values and {self.others} are in bold."
        tables[-1] = replace(tables[-1], notes=self._explain(shown), bold=bold, doubts=self.doubts)
        return tables

    def describe_ranks(self) -> list[str]:
        """A sentence for each of the user's models: its rank, and the published models above and below it."""
        if self.others != YOUR_MODELS:
            return []
        ranked = [row for row in self.rows if self.by in row.values]
        metric = " ".join(filter(None, heading_of(self.by))) if self.by else ""
        shown = self._shorten_names()
        return [
            f"{shown[row.model]}: {ordinal(rank)} of {len(ranked)} by {metric}{_name_neighbours(ranked, rank)}."
            for rank, row in enumerate(ranked, 1)
            if not row.published
        ]

    def records(self) -> list[dict[str, object]]:
        """A row per model: unrounded values in the units of report.json, under its keys."""
        rows = []
        for row in self.rows:
            cells: dict[str, object] = {"table": self.table.name, "model": visible(row.model)}
            cells["published"] = row.published
            cells["trained_on"] = visible(row.trained_on)
            for key in self.keys:
                if key in row.values:
                    cells[key] = row.values[key]
                if key in row.deviations:
                    cells[f"{key}{SPREAD}"] = row.deviations[key]
            rows.append(cells)
        return rows

    def record(self) -> dict[str, object]:
        """The paper and the figures of all models."""
        paper = {name: getattr(self.table, name) for name in ("name", "citation", "url")}
        return {**paper, "models": [asdict(row) for row in self.rows], "doubts": dict(self.doubts)}

    def _shorten_names(self) -> dict[str, str]:
        """Name of each model that is not published to what a table shows."""
        own = [row.model for row in self.rows if not row.published]
        long = any(len(name) > LONGEST_NAME for name in own)
        return {name: f"model {place}" if long else name for place, name in enumerate(own, 1)}

    def _explain(self, shown: Mapping[str, str]) -> list[str]:
        """The notes below the last table."""
        both = "" if self.by.count("/") > 1 else ". Values are means of both directions, RSUM the sum of COCO 1K"
        name_of_order = " ".join(filter(None, heading_of(self.by)))
        names = [f"{short}: {name}" for name, short in shown.items() if short != name]
        names += [
            f"{SEEN} {shown[row.model]} was trained on {row.trained_on}. Its rank is fair only among models that were "
            "trained on these too."
            for row in self.rows
            if row.trained_on
        ]
        order = f"Ordered by {name_of_order}, of equal models published ones first{both}."
        return [*names, order, f"{self.table.citation}. {self.table.url}"]

    def _order_columns(self, keys: Sequence[str]) -> RowOrder:
        """The column that orders the rows, after those of the names and the ranks."""
        least_is_best = (
            column
            for column, key in enumerate(keys, 2)
            if not metric_labelled(key.rpartition("/")[2])[0].higher_is_better
        )
        column = keys.index(self.by) + 2 if self.by in keys else None
        return RowOrder(column, frozenset({1, *least_is_best}))

    def _list_rows(self, keys: Collection[str]) -> list[Row]:
        """The user's models, and the published ones with one of these metrics."""
        return [row for row in self.rows if not row.published or any(key in row.values for key in keys)]

    def _make_rows(self, keys: Sequence[str], shown: Mapping[str, str]) -> Iterator[list[str | Cell]]:
        best = {key: self._find_best(key) for key in keys}
        for row in self._list_rows(keys):
            rank = str(self.rows.index(row) + 1) if self.by in row.values else MISSING
            values = [self._show(row, key, best[key]) if key in row.values else MISSING for key in keys]
            mark = f" {SEEN}" if row.trained_on else ""
            name = Cell(row.model) if row.published else Cell(f"{shown[row.model]}{mark}", strong=True)
            yield [name, rank, *values]

    def _find_best(self, key: str) -> str:
        """The best value under a metric, as it is shown."""
        metric = key.rpartition("/")[2]
        best = max if metric_labelled(metric)[0].higher_is_better else min
        value = best(row.values[key] for row in self.rows if key in row.values)
        return show_value(metric, value, self.table.decimals - 2)

    def _show(self, row: Row, key: str, best: str) -> Cell:
        """A value as its paper prints it, with the deviation of its samples; in bold if it looks like the best."""
        metric = key.rpartition("/")[2]
        decimals = self.table.decimals - 2
        text = show_value(metric, row.values[key], decimals)
        deviation = f"± {show_value(metric, row.deviations[key], decimals)}" if key in row.deviations else ""
        return Cell(text, deviation, strong=text == best)

    def __repr__(self) -> str:
        return visible(f"<{self.title}: {len(self.rows)} models, {len(self.keys)} metrics>")


def _name_neighbours(ranked: Sequence[Row], rank: int) -> str:
    """The published models next to a rank, in words."""
    above = [row.model for row in ranked[: rank - 1] if row.published]
    below = [row.model for row in ranked[rank:] if row.published]
    if above and below:
        return f", between {list_names([above[-1], below[0]])}"
    if above:
        return f", below {above[-1]}"
    return f", above {below[0]}" if below else ""


def _split_columns(keys: Sequence[str]) -> list[list[str]]:
    """The metrics of each part of a wide table; those of one direction stand together."""
    parts: list[list[str]] = [[]]
    for _, group in groupby(keys, key=lambda key: key.rpartition("/")[0]):
        together = list(group)
        if len(parts[-1]) + len(together) > MOST_COLUMNS:
            parts.append([])
        parts[-1] += together
    return parts


def join(table: PublishedTable, reports: Mapping[str, Report]) -> Joined:
    """A published table with further models in their places.

    Args:
        table: published scores.
        reports: name of a model to its report on the COCO test split.

    Raises:
        InvalidOption: a report is not on the whole test split of the official data with each task's own labels.

    Example:
        >>> from cxc_eccv.comparison.published import printed_table
        >>> from cxc_eccv.types import Result
        >>> from cxc_eccv.types.provenance import DataFacts, Provenance
        >>> facts = Provenance(split="test", data=DataFacts(edition="official"))
        >>> report = Report((Result("cxc", "t2t", "recall_at_1", 0.41, 25_000),), {}, facts)
        >>> [row.model for row in join(printed_table("cxc"), {"mine": report}).rows][2:5]
        ['VSRN (released)', 'mine', 'VSE++']
    """
    for name, report in reports.items():
        check_as_published(name, report)
    trained = {name: report.trained_on for name, report in reports.items() if name_collections(report.training_data)}
    rows = [
        replace(
            _unpublished_row(table, name, report.scores, trained.get(name, "")),
            intervals=_read_intervals(table, report),
            confidence=report.provenance.confidence,
        )
        for name, report in reports.items()
    ]
    joined = _order_rows(table, [key for key in table.keys if any(key in row.values for row in rows)], rows)
    return replace(joined, doubts=collect_doubts(reports))


def join_scores(table: PublishedTable, keys: Collection[str], scores: Mapping[str, Mapping[str, float]]) -> Joined:
    """A published table under some of its keys, with the models of ``scores`` that have a value there."""
    shown = [key for key in table.keys if key in keys]
    rows = [_unpublished_row(table, model, values) for model, values in scores.items()]
    joined = _order_rows(table, shown, [row for row in rows if set(shown) & set(row.values)])
    return replace(joined, others="submitted models")


def _order_rows(table: PublishedTable, shared: Sequence[str], own: Iterable[Row]) -> Joined:
    keys = [key for key in shared if key.count("/") == 1] or shared
    main = task(table.task).main_metric
    by = next((key for key in keys if key.startswith(f"{table.task}/") and key.endswith(f"/{main}")), "".join(keys[:1]))
    rows = [*(_published_row(table, model) for model in table.models), *own]
    if by:
        sign = -1 if metric_labelled(by.rpartition("/")[2])[0].higher_is_better else 1
        rows.sort(key=lambda row: sign * row.values[by] if by in row.values else np.inf)
    return Joined(table, tuple(keys), by, tuple(rows))


def _published_row(table: PublishedTable, model: str) -> Row:
    scores = [score for score in table.scores if score.model == model]
    deviations = {score.key: score.deviation for score in scores if score.deviation is not None}
    return Row(model, True, {score.key: score.value for score in scores}, deviations)


def _unpublished_row(table: PublishedTable, name: str, scores: Mapping[str, float], trained_on: str = "") -> Row:
    scores = {**scores, **both_directions(scores)}
    scores = {key: round(value, table.decimals) if is_fraction(key) else value for key, value in scores.items()}
    return Row(
        name,
        False,
        {key: scores[key] for key in table.keys if key in scores},
        {key: scores[f"{key}{SPREAD}"] for key in table.keys if f"{key}{SPREAD}" in scores},
        trained_on,
    )


def _read_intervals(table: PublishedTable, report: Report) -> dict[str, tuple[float, float]]:
    """The intervals of a report under the keys of a table."""
    lows = {row.key: row.low for row in report.results if row.low is not None}
    highs = {row.key: row.high for row in report.results if row.high is not None}
    lows |= both_directions(lows)
    highs |= both_directions(highs)
    return {key: (lows[key], highs[key]) for key in table.keys if key in lows and key in highs}


def check_as_published(name: str, report: Report) -> None:
    """Refuse a report that is not on the whole, unmodified, official test split with each task's own labels."""
    edition = report.provenance.data.edition
    split = report.provenance.split
    faults = [report.departure] if report.departure else []
    if (edition, split) != (OFFICIAL, "test"):
        faults.append(f"the {split} split of the edition {edition!r}")
    if faults:
        raise InvalidOption(
            f"{name} cannot be compared with published models: it was scored on {' and '.join(faults)}. They were "
            "scored on the whole test split of the official data, with the labels of each task; evaluate it on these."
        )
