"""The result of a comparison: the difference of every metric, ranks of all models, and tables of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from cxc_eccv.comparison.pairing import Pair
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.examples import label_tasks
from cxc_eccv.statistics import POWER, queries_to_detect, rank_intervals
from cxc_eccv.tables import MISSING, Cell, Table, tables_to_console
from cxc_eccv.terminal import shown_html, shown_text, visible
from cxc_eccv.types import DIRECTIONS, FloatArray, check_whole
from cxc_eccv.types.reported import group_by_reason
from cxc_eccv.types.strict_json import Json
from cxc_eccv.wording import key_name, list_names, show_value, task_name

if TYPE_CHECKING:
    import pandas as pd


SAMPLES_USED = 10_000
"""More samples do not sharpen the ranks."""


@dataclass(frozen=True, slots=True)
class ModelRank:
    """The rank of a model under one metric.

    Attributes:
        model: name.
        task, direction, metric: the key's parts.
        value: score, in the report's units.
        rank: 1 plus the number of models with a better score.
        low, high: best and worst rank; see :func:`cxc_eccv.statistics.rank_intervals`.
        groups: letters; two models share one if and only if they cannot be told apart.
        tied_with: each model that cannot be told apart, to the number of queries that would do it if the scores are the
            true ones, None for equal scores or too few samples.
    """

    model: str
    task: str
    direction: str
    metric: str
    value: float
    rank: int
    low: int
    high: int
    groups: str
    tied_with: Mapping[str, int | None]

    @property
    def key(self) -> str:
        """``task/direction/metric``, as in report.json."""
        return "/".join(part for part in (self.task, self.direction, self.metric) if part)

    @property
    def interval(self) -> str:
        """The ranks in words: ``3`` or ``3-7``."""
        return name_ranks(self.low, self.high)


def rank_models(joined: Pair, drawn: FloatArray, names: Sequence[str], confidence: float) -> list[ModelRank]:
    """A row per model, the best first, from (M, S) drawn scores."""
    result, values = joined.results[0], np.array([row.value for row in joined.results])
    higher = joined.spec.higher_is_better
    clusters = np.unique(joined.images).size
    intervals = rank_intervals(values, drawn[:, :SAMPLES_USED], clusters, confidence, higher_is_better=higher)
    groups, scores = intervals.groups, values if higher else -values
    order = np.lexsort((np.arange(values.size), -scores)).tolist()
    return [
        ModelRank(
            model=names[place],
            task=result.task,
            direction=result.direction,
            metric=result.metric,
            value=float(values[place]),
            rank=1 + int(np.count_nonzero(scores > scores[place])),
            low=int(intervals.low[place]),
            high=int(intervals.high[place]),
            groups=groups[place],
            tied_with={
                names[other]: queries_to_detect(
                    values[place] - values[other], intervals.detectable[place, other], result.n_queries
                )
                for other in order
                if other != place and intervals.tied[place, other]
            },
        )
        for place in order
    ]


def ranks_under_any_labels(ranks: Iterable[ModelRank]) -> dict[str, dict[str, tuple[int, int]]]:
    """Direction to model to its best and worst rank under any labels of the same gallery, if two or more rank it."""
    by_direction: dict[str, dict[str, list[ModelRank]]] = {}
    for row in ranks:
        if row.task in label_tasks():
            by_direction.setdefault(row.direction, {}).setdefault(row.model, []).append(row)
    placed = {}
    for direction, by_model in by_direction.items():
        n_tasks = len({row.task for rows in by_model.values() for row in rows})
        placed[direction] = {
            model: (min(row.low for row in rows), max(row.high for row in rows))
            for model, rows in by_model.items()
            if len(rows) == n_tasks > 1
        }
    return {direction: by_model for direction, by_model in placed.items() if by_model}


LONGEST_NAME = 30
"""Longer names of models stand below a table."""


def group_ranks(ranks: Iterable[ModelRank]) -> dict[str, dict[str, list[ModelRank]]]:
    """Direction to task to its rows, the directions of pairs of modalities first."""
    order = {direction: place for place, direction in enumerate(DIRECTIONS)}
    groups: dict[str, dict[str, list[ModelRank]]] = {}
    for row in sorted(ranks, key=lambda row: order.get(row.direction, len(order))):
        groups.setdefault(row.direction, {}).setdefault(row.task, []).append(row)
    return groups


def rank_tables(
    ranks: Sequence[ModelRank], confidence: float, any_labels: Mapping[str, Mapping[str, tuple[int, int]]]
) -> list[Table]:
    """A table per direction with a row per model and a column per task, and the ranks under any labels."""
    models = dict.fromkeys(row.model for row in ranks)
    shown = {model: model if len(model) <= LONGEST_NAME else f"model {place}" for place, model in enumerate(models, 1)}
    ranks = [replace(row, model=shown[row.model]) for row in ranks]
    legend = [f"{short}: {model}" for model, short in shown.items() if short != model]
    tables = [
        _rank_table(
            direction,
            by_task,
            {shown[model]: bounds for model, bounds in any_labels.get(direction, {}).items()},
        )
        for direction, by_task in group_ranks(ranks).items()
    ]
    if not tables:
        return []
    notes = [*legend, *explain_ranks(ranks, confidence, any_labels=bool(any_labels))]
    return [*tables[:-1], replace(tables[-1], notes=notes)]


def _rank_table(
    direction: str, by_task: Mapping[str, Sequence[ModelRank]], union: Mapping[str, tuple[int, int]]
) -> Table:
    columns = [{row.model: f"{row.interval} {row.groups}" for row in rows} for rows in by_task.values()]
    names = [task_name(task) for task in by_task]
    if union:
        columns.append({model: name_ranks(*bounds) for model, bounds in union.items()})
        names.append("any labels")
    models = dict.fromkeys(model for column in columns for model in column)
    rows = [[model, *(column.get(model, MISSING) for column in columns)] for model in models]
    return Table([(name,) for name in ("", *names)], rows, f"Ranks, {direction or 'all parts'}")


def explain_ranks(ranks: Sequence[ModelRank], confidence: float, *, any_labels: bool) -> list[str]:
    """What the ranks and their letters mean, in sentences."""
    labels = list_names(task_name(task) for task in label_tasks() if task in {row.task for row in ranks})
    return [
        f"Ranks by the main metric of each task; with {100 * confidence:g}% confidence, all of them hold together. Two "
        "models share a letter if and only if they cannot be told apart.",
        *([f"Any labels: the rank under any of {labels}."] if any_labels else []),
    ]


def name_ranks(low: int, high: int) -> str:
    """One rank, or a range of ranks."""
    return str(low) if low == high else f"{low}-{high}"


FEWEST_SAMPLES = 100
METRICS = ("main", "all")
LEAST_SHOWN = 0.001
MOST_QUERIES = 1_000_000
LONGEST_HEADING = 16
"""Longer names of models are not used as column headings; the title or a legend has them."""


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """How differences are tested: which metrics (``main`` or ``all``), and at the level of 1 minus the confidence."""

    seed: int = 0
    samples: int = 10_000
    confidence: float = 0.95
    metrics: str = "main"

    def __post_init__(self) -> None:
        check_whole("seed", self.seed, 0)
        check_whole("samples", self.samples, FEWEST_SAMPLES)
        if not 0 < self.confidence < 1:
            raise InvalidOption(f"confidence is {self.confidence!r}, expected a number between 0 and 1, as 0.95")
        if self.metrics not in METRICS:
            raise InvalidOption(f"metrics is {self.metrics!r}, expected {' or '.join(METRICS)}")

    @property
    def level(self) -> float:
        """The significance level of all tests together, without the rounding error of the subtraction."""
        return round(1 - self.confidence, 12)


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of one model against the baseline.

    Attributes:
        model, baseline: names.
        task, direction, metric: the key's parts.
        value, baseline_value: scores, in the report's units.
        difference: value minus baseline_value.
        low, high: percentile interval of the difference.
        p_value: two-sided p-value; see :func:`cxc_eccv.statistics.two_sided_p_value`.
        p_holm: p-value corrected for all tests of the comparison.
        higher_is_better: whether larger values of the metric are better.
        better, worse: numbers of queries on which the model does better and worse; 0 for a whole task.
        n_queries, n_images: numbers of queries, and of the images that are resampled.
        detectable: true difference that is significant with 80% power, at Bonferroni's level for all tests.
        queries_needed: number of queries at which this difference is detectable, None for a difference of 0.
    """

    model: str
    baseline: str
    task: str
    direction: str
    metric: str
    value: float
    baseline_value: float
    difference: float
    low: float
    high: float
    p_value: float
    p_holm: float
    higher_is_better: bool
    better: int
    worse: int
    n_queries: int
    n_images: int
    detectable: float
    queries_needed: int | None

    @property
    def key(self) -> str:
        """``task/direction/metric``, as in report.json."""
        return "/".join(part for part in (self.task, self.direction, self.metric) if part)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Models against a baseline; it shows its tables when printed, or at the end of a notebook's cell.

    Attributes:
        baseline: name of the baseline.
        models: names of the models compared with it.
        settings: how the differences are tested.
        differences: a row per model and metric; Holm's correction is over all of them.
        not_compared: model to key to the reason why a metric was left out.
        notes: cautions about the numbers.
        data: split and edition of the data, in words.
        ranks: a row per model, the baseline among them, and main metric; see
            :func:`cxc_eccv.statistics.rank_intervals`. All hold together with the confidence.
        labels: the sources of labels that replace those of the tasks; empty if every task uses its own.
    """

    baseline: str
    models: tuple[str, ...]
    settings: ComparisonSettings
    differences: tuple[Difference, ...]
    not_compared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    data: str = ""
    ranks: tuple[ModelRank, ...] = ()
    labels: str = ""

    @property
    def ranks_under_any_labels(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Ranks over the labels of all tasks; empty where the same sources replace them all."""
        return {} if self.labels else ranks_under_any_labels(self.ranks)

    def rank_tables(self) -> list[Table]:
        """A table of ranks for each direction."""
        return rank_tables(self.ranks, self.settings.confidence, self.ranks_under_any_labels)

    def significant(self, difference: Difference) -> bool:
        """Whether a difference is significant after Holm's correction."""
        return difference.p_holm < self.settings.level

    def to_pandas(self) -> pd.DataFrame:
        """A row per model and metric: the attributes of :class:`Difference`, and whether it is significant.

        Example:
            >>> Comparison("old", (), ComparisonSettings(), ()).to_pandas().columns[:3].tolist()
            ['model', 'baseline', 'task']
        """
        import pandas as pd

        columns = [*(column.name for column in fields(Difference)), "significant"]
        return pd.DataFrame(self.records(), columns=columns)

    def records(self) -> list[dict[str, Json]]:
        """The rows of :meth:`to_pandas`."""
        return [asdict(row) | {"significant": self.significant(row)} for row in self.differences]

    def tables(self) -> list[Table]:
        """The tables of differences, and for three or more models a table of ranks for each direction."""
        tables = self.difference_tables()
        tables += self.rank_tables() if len(self.models) > 1 else []
        return [replace(table, data=self.data) for table in tables]

    def difference_tables(self) -> list[Table]:
        """A table for each model, with the metrics that were left out; the notes follow the last table."""
        settings, n_tests = self.settings, len(self.differences)
        family = "the main metric of each task" if settings.metrics == "main" else "all metrics"
        legend = (
            f"Percent, or ranks. Difference with its {100 * settings.confidence:g}% interval; p two-sided, from a "
            f"paired bootstrap over images ({settings.samples:,} samples, seed {settings.seed}); Holm: p corrected for "
            f"{n_tests} tests ({family}), * under {settings.level:.2g}; won:lost counts the queries that the model "
            "does better or worse. Where a difference is not significant: the difference detectable with "
            f"{100 * POWER:g}% power, and the queries needed to detect the observed one if it is the true one."
        )
        *most, last = [_difference_table(self, model) for model in self.models]
        cautions = [f"note: {note}" for note in self.notes]
        return [*most, replace(last, notes=[*last.notes, legend], cautions=cautions)]

    def __repr__(self) -> str:
        models = f"{', '.join(self.models)} with {self.baseline}"
        significant = sum(map(self.significant, self.differences))
        return visible(f"<Comparison of {models}: {len(self.differences)} tests, {significant} significant>")

    def __str__(self) -> str:
        return shown_text(tables_to_console(self.tables()))

    def _repr_html_(self) -> str:
        return shown_html(tables_to_console(self.tables()))


def _difference_table(comparison: Comparison, model: str) -> Table:
    is_short = max(len(model), len(comparison.baseline)) <= LONGEST_HEADING
    names = (comparison.baseline, model) if is_short else ("baseline", "model")
    columns = ("", *names, "difference", "interval", "p", "Holm", "won:lost", "detectable", "queries")
    header = [(column,) for column in columns]
    rows: list[Sequence[str | Cell]] = []
    styles = []
    rows_of_model = [row for row in comparison.differences if row.model == model]
    for task in dict.fromkeys(row.task for row in rows_of_model):
        of_task = [row for row in rows_of_model if row.task == task]
        rows += [[task_name(task)], *(_difference_cells(row, comparison.significant(row)) for row in of_task)]
        styles += ["", *("bold" if comparison.significant(row) else "" for row in of_task)]
    left_out = group_by_reason(comparison.not_compared.get(model, {}))
    notes = [f"not compared: {', '.join(keys)}: {reason}" for reason, keys in left_out.items()]
    return Table(header, rows, f"{model} against {comparison.baseline}", notes=notes, styles=styles)


def _difference_cells(row: Difference, significant: bool) -> list[str | Cell]:
    low, high = (show_value(row.metric, bound, sign=True) for bound in (row.low, row.high))
    return [
        key_name(row.key),
        show_value(row.metric, row.baseline_value),
        show_value(row.metric, row.value),
        Cell(show_value(row.metric, row.difference, sign=True), strong=significant),
        f"[{low}, {high}]",
        _p(row.p_value),
        f"{_p(row.p_holm)} {'*' if significant else ' '}",
        f"{row.better:,}:{row.worse:,}" if row.direction else "",
        "" if significant else show_value(row.metric, row.detectable),
        "" if significant else _queries(row.queries_needed),
    ]


def _queries(needed: int | None) -> str:
    if needed is None:
        return MISSING
    return f">{MOST_QUERIES:,}" if needed > MOST_QUERIES else f"{int(float(f'{needed:.2g}')):,}"


def _p(value: float) -> str:
    return f"<{LEAST_SHOWN}" if value < LEAST_SHOWN else f"{value:.3f}"
