"""The result of a comparison: the difference of every metric, ranks of all models, and tables of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from cxc_eccv.comparison.compared_tables import (
    list_difference_tables,
    list_rank_tables,
    list_summary_tables,
    make_pair_table,
    name_ranks,
)
from cxc_eccv.comparison.pairing import Pair
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.examples import label_tasks
from cxc_eccv.statistics import queries_to_detect, rank_intervals
from cxc_eccv.tables import Table, tables_to_console
from cxc_eccv.terminal import shown_html, shown_text, visible
from cxc_eccv.types import FloatArray, check_whole
from cxc_eccv.types.strict_json import Json

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


FEWEST_SAMPLES = 100
METRICS = ("main", "all")


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
        brief_notes: the notes with one for all models where ``notes`` has one for each; these are shown.
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
    brief_notes: tuple[str, ...] = ()

    @property
    def ranks_under_any_labels(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Ranks over the labels of all tasks; empty where the same sources replace them all."""
        return {} if self.labels else ranks_under_any_labels(self.ranks)

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
        """Of two models their scores and differences; of more their scores with groups, and what differs."""
        return list_summary_tables(self) if len(self.models) > 1 else [make_pair_table(self)]

    def all_tables(self) -> list[Table]:
        """All that is known of the differences; with three models or more first :meth:`tables`, and last the ranks."""
        if len(self.models) == 1:
            return list_difference_tables(self)
        return [*self.tables(), *list_difference_tables(self), *list_rank_tables(self)]

    def __repr__(self) -> str:
        models = f"{', '.join(self.models)} with {self.baseline}"
        significant = sum(map(self.significant, self.differences))
        return visible(f"<Comparison of {models}: {len(self.differences)} tests, {significant} significant>")

    def __str__(self) -> str:
        return shown_text(tables_to_console(self.tables()))

    def _repr_html_(self) -> str:
        return shown_html(tables_to_console(self.tables()))
