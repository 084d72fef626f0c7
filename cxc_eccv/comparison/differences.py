"""The result of a comparison: the difference of every metric, ranks of all models, and tables of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cxc_eccv.comparison.model_ranks import ModelRank, name_ranks, ranks_under_any_labels
from cxc_eccv.errors import InvalidOption
from cxc_eccv.presentation import Section, ShownResult
from cxc_eccv.presentation.dot_plot import NARROW, DotPlot, PlottedValue
from cxc_eccv.presentation.drawing import DrawnChart
from cxc_eccv.report.best_ranks import label_tasks
from cxc_eccv.statistics import POWER, least_p_value
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.terminal import visible
from cxc_eccv.types import DIRECTIONS, check_whole
from cxc_eccv.types.result import group_by_reason
from cxc_eccv.types.strict_json import Json
from cxc_eccv.wording import (
    INTERVAL_PHRASES,
    count,
    direction_name,
    heading_of,
    key_name,
    list_names,
    show_value,
    task_name,
    unit_of,
)

if TYPE_CHECKING:
    import pandas as pd

LONGEST_NAME = 30
"""Longer names of models stand below a table."""
LONGEST_HEADING = 9
"""Longer names of models are no headings of columns; the title has them."""
LEAST_SHOWN = 0.001
MOST_QUERIES = 1_000_000

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
class Comparison(ShownResult):
    """Models against a baseline; it shows its tables when printed, or at the end of a notebook's cell.

    Attributes:
        baseline: name of the baseline.
        models: names of the models compared with it.
        settings: how the differences are tested.
        differences: a row per model and metric; Holm's correction is over all of them.
        not_compared: model to key to the reason why a metric was left out.
        notes: cautions about the numbers, and what makes those of a model suspect.
        data: split and edition of the data, in words.
        ranks: a row per model, the baseline among them, and main metric; see
            :func:`cxc_eccv.statistics.rank_intervals`. All hold together with the confidence.
        labels: the sources of labels that replace those of the tasks; empty if every task uses its own.
        brief_notes: the notes with one for all models where ``notes`` has one for each; these are shown.
        doubts: name of each model whose numbers are suspect to the sentences that say why.
    """

    page_template: ClassVar[tuple[str, str]] = ("compared.html.jinja", "cxc_eccv.comparison")

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
    doubts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

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

    @property
    def title(self) -> str:
        """How many models are compared."""
        return f"Comparison of {count(1 + len(self.models), 'model')}"

    def record(self) -> dict[str, object]:
        """The content of ``compare.json``; values are in the units of report.json."""
        differences = [
            {"key": row.key, **asdict(row), "significant": self.significant(row)} for row in self.differences
        ]
        return {
            "schema": 1,
            "data": self.data,
            "baseline": self.baseline,
            "models": self.models,
            "settings": {
                **asdict(self.settings),
                "resampled": "images with all their queries, with replacement, the same draws for both models",
                "interval": "percentile",
                "p_value": "two-sided: 2 (1 + min(samples <= 0, samples >= 0)) / (samples + 1), at most 1",
                "correction": "Holm",
                "tests": len(self.differences),
            },
            "differences": differences,
            "ranks": [{"key": row.key, **asdict(row)} for row in self.ranks],
            "ranks_under_any_labels": self.ranks_under_any_labels,
            "not_compared": self.not_compared,
            "notes": self.notes,
        }

    def sections(self) -> list[Section]:
        """The main metrics as a chart, with three models or more their scores, all differences, and the ranks."""
        headlines = [Section("headlines", "Main metrics")] if self.chart else []
        differences = Section("differences", f"Differences from {self.baseline}", list_difference_tables(self))
        if len(self.models) == 1:
            return [*headlines, differences]
        explained = self.explain_ranks()
        ranks: list[Section] = []
        for direction in group_ranks(self.ranks):
            lead = "" if ranks else explained
            ranks.append(Section(_anchor_ranks(direction), f"Ranks, {direction_name(direction)}", lead=lead))
        return [*headlines, Section("scores", "Scores", self.tables()), differences, *ranks]

    @property
    def chart(self) -> DotPlot | None:
        """The main metrics that are fractions, best model first; None without one."""
        rows: dict[str, dict[str, PlottedValue]] = {}
        for row in self.ranks:
            if unit_of(row.metric) == "percent":
                name = " ".join(filter(None, heading_of(row.key)))
                values = (100 * row.value, 100 * row.value_low, 100 * row.value_high)
                rows.setdefault(name, {})[row.model] = PlottedValue(*values)
        if not rows:
            return None
        models = [model for model in _shorten(self) if any(model in values for values in rows.values())]
        return DotPlot(f"Main metrics of {len(models)} models, in percent", models, rows)

    def explain_ranks(self) -> str:
        """What the ranks are, once for all directions."""
        return (
            "The ranks that each model may have under the main metric of each task. Models that share a letter cannot "
            "be told apart. The chance that any of these ranks is wrong is at most "
            f"{_percent(1 - self.settings.confidence)}."
        )

    def page_content(self, images: str | Path | None = None) -> dict[str, Any]:
        """The main metrics as a chart, and the ranks of each task as charts in the section of their direction."""
        ranks = group_ranks(self.ranks) if len(self.models) > 1 else {}
        charts = {}
        if self.chart is not None:
            settings = self.settings
            note = (
                "In percent; in each row the models stand in the order of the legend. "
                f"Bars: {_percent(settings.confidence)} intervals of single values ({settings.samples:,} samples of "
                f"images{self._explain_other_intervals()}). Models whose bars overlap may differ all the same: the "
                "tests below compare them image by image."
            )
            charts["headlines"] = DrawnChart(self.chart.draw(), self.chart.draw(NARROW), note)
        return {
            "baseline": self.baseline,
            "confidence": self.settings.confidence,
            "charts": charts,
            "ranks": {_anchor_ranks(direction): list(by_task.values()) for direction, by_task in ranks.items()},
        }

    def _explain_other_intervals(self) -> str:
        """How those intervals of scores were made that are not from samples; empty without one."""
        methods = dict.fromkeys(row.interval_method for row in self.ranks if row.interval_method != "bootstrap")
        return "".join(f"; {INTERVAL_PHRASES[method]}" for method in methods)

    def __repr__(self) -> str:
        models = f"{', '.join(self.models)} with {self.baseline}"
        significant = sum(map(self.significant, self.differences))
        return visible(f"<Comparison of {models}: {len(self.differences)} tests, {significant} significant>")


def _anchor_ranks(direction: str) -> str:
    return f"ranks-{direction or 'all'}"


def list_summary_tables(comparison: Comparison) -> list[Table]:
    """The scores of three or more models with their groups, and how many metrics differ from the baseline."""
    shown = _shorten(comparison)
    legend = [f"{short}: {name}" for name, short in shown.items() if not name.startswith(short)]
    cautions = [*_name_left_out(comparison.not_compared.values()), *_list_cautions(comparison)]
    scores = _score_table(comparison, shown)
    outcomes = _outcome_table(comparison, shown)
    return [
        replace(scores, notes=[*legend, *scores.notes], data=comparison.data),
        replace(outcomes, cautions=cautions, data=comparison.data, doubts=comparison.doubts),
    ]


def _shorten(comparison: Comparison) -> dict[str, str]:
    """Name of each model to what a table shows, the best by their mean rank first."""
    models = (comparison.baseline, *comparison.models)
    ranks = {model: [row.rank for row in comparison.ranks if row.model == model] for model in models}
    ordered = sorted(models, key=lambda model: sum(ranks[model]) / max(1, len(ranks[model])))
    names = [model.removesuffix(f", labels {comparison.labels}") for model in ordered]
    return {
        model: name if len(name) <= LONGEST_NAME else f"model {models.index(model) + 1}"
        for model, name in zip(ordered, names, strict=True)
    }


def _score_table(comparison: Comparison, shown: Mapping[str, str]) -> Table:
    """A row per model and a column per main metric, or per metric where no main one is compared."""
    values = {(row.model, row.key): row.value for row in comparison.differences}
    values |= {(row.baseline, row.key): row.baseline_value for row in comparison.differences}
    groups = {(row.model, row.key): row.groups for row in comparison.ranks}
    keys = list(dict.fromkeys(key for _, key in groups or values))
    width = max(map(len, groups.values()), default=0)
    rows = [
        [
            short,
            *(
                f"{show_value(key.rpartition('/')[2], values[name, key])} {groups.get((name, key), ''):{width}}"
                if (name, key) in values
                else MISSING
                for key in keys
            ),
        ]
        for name, short in shown.items()
    ]
    notes = [
        "Models that share a letter in a column cannot be told apart there. The chance that any of these groups is "
        f"wrong is at most {_percent(1 - comparison.settings.confidence)}."
    ]
    header = [("", "", ""), *map(heading_of, keys)]
    labels = f", labels {comparison.labels}" if comparison.labels else ""
    return Table(header, rows, f"Scores of {len(shown)} models{labels}", "in percent", notes if groups else ())


def _outcome_table(comparison: Comparison, shown: Mapping[str, str]) -> Table:
    """A row per model: how many differences from the baseline show it better or worse, and its ranks."""
    settings = comparison.settings
    any_labels = comparison.ranks_under_any_labels
    rows = []
    for model, short in shown.items():
        tested = [row for row in comparison.differences if row.model == model]
        gains = [row.difference * (1 if row.higher_is_better else -1) for row in tested if comparison.significant(row)]
        better = sum(gain > 0 for gain in gains)
        worse = sum(gain < 0 for gain in gains)
        counts = [better, worse, len(tested) - better - worse] if tested else [MISSING] * 3
        ranks = [name_ranks(*by_model[model]) if model in by_model else MISSING for by_model in any_labels.values()]
        rows.append([short, *map(str, counts), *ranks])
    family = "main metrics" if settings.metrics == "main" else "metrics"
    notes = [
        f"The number of {family} under which a model is better or worse than {comparison.baseline}: tests at the level "
        f"{settings.level:.2g}, corrected for {len(comparison.differences)} tests (Holm).",
        *_explain_any_labels(comparison.ranks, any_labels),
    ]
    header = [("",), ("better",), ("worse",), ("no difference found",)]
    header += [(f"rank {direction} under any labels",) for direction in any_labels]
    elsewhere = "With --output, compare.html has every difference."
    return Table(header, rows, f"What differs from {comparison.baseline}", notes=notes, elsewhere=elsewhere)


def make_pair_table(comparison: Comparison) -> Table:
    """The scores of two models and their differences."""
    settings, (model,) = comparison.settings, comparison.models
    interval = f"in percent with {_percent(settings.confidence)} interval"
    legend = (
        f"p: paired bootstrap over images, corrected for {len(comparison.differences)} tests (Holm); * under "
        f"{settings.level:.2g}{_explain_least_p(comparison)}."
    )
    table = _difference_table(comparison, model, ("difference", "p"), _brief_cells)
    return replace(
        table,
        subtitle=interval,
        notes=[*table.notes, legend],
        cautions=_list_cautions(comparison),
        doubts=comparison.doubts,
        elsewhere="With --output, compare.html has more.",
    )


def _explain_least_p(comparison: Comparison) -> str:
    """The explanation of the sign of p-values that more samples could lower; empty if none is shown."""
    samples = comparison.settings.samples
    shown = any(is_least_p(row.p_value, samples) and row.p_holm >= LEAST_SHOWN for row in comparison.differences)
    return f"; \N{LESS-THAN OR EQUAL TO} the smallest p that {samples:,} samples allow" if shown else ""


def _brief_cells(row: Difference, significant: bool, samples: int) -> list[str | Cell]:
    low, high = (show_value(row.metric, bound, sign=True) for bound in (row.low, row.high))
    difference = Cell(
        show_value(row.metric, row.difference, sign=True), interval=f"[{low}, {high}]", strong=significant
    )
    return [difference, _show_p(row.p_holm, significant, is_least=is_least_p(row.p_value, samples))]


def list_difference_tables(comparison: Comparison) -> list[Table]:
    """A table for each model against the baseline, with all that is known; the legend follows the last one."""
    settings = comparison.settings
    family = "the main metric of each task" if settings.metrics == "main" else "all metrics"
    legend = (
        f"In percent, or ranks. Difference with its {_percent(settings.confidence)} interval; p two-sided, from a "
        f"paired bootstrap over images ({settings.samples:,} samples, seed {settings.seed}); Holm: p corrected for "
        f"{len(comparison.differences)} tests ({family}), * under {settings.level:.2g}{_explain_least_p(comparison)}; "
        "won:lost: the queries on which the model is better or worse. Where no difference is found: the difference "
        f"that this test detects with {_percent(POWER)} power, and the number of queries at which it would detect the "
        "observed one."
    )
    columns = ("difference", "interval", "p", "Holm", "won:lost", "detectable", "queries")
    tables = [_difference_table(comparison, model, columns, _detailed_cells) for model in comparison.models]
    tables[-1] = replace(tables[-1], notes=[*tables[-1].notes, legend])
    if len(tables) == 1:
        tables[-1] = replace(tables[-1], cautions=_list_cautions(comparison), doubts=comparison.doubts)
    return tables


def _difference_table(
    comparison: Comparison,
    model: str,
    columns: Sequence[str],
    show: Callable[[Difference, bool, int], list[str | Cell]],
) -> Table:
    """The rows of each task below its name: both scores, then these columns."""
    is_short = max(len(model), len(comparison.baseline)) <= LONGEST_HEADING
    names = (comparison.baseline, model) if is_short else ("baseline", "model")
    rows: list[Sequence[str | Cell]] = []
    task = ""
    for row in (row for row in comparison.differences if row.model == model):
        if row.task != task:
            rows.append([task_name(task := row.task)])
        scores = [show_value(row.metric, value) for value in (row.baseline_value, row.value)]
        cells = show(row, comparison.significant(row), comparison.settings.samples)
        rows.append([key_name(row.key), *scores, *cells])
    return Table(
        [(column,) for column in ("", *names, *columns)],
        rows,
        f"{model} against {comparison.baseline}",
        notes=_name_left_out([comparison.not_compared.get(model, {})]),
        data=comparison.data,
    )


def _detailed_cells(row: Difference, significant: bool, samples: int) -> list[str | Cell]:
    low, high = (show_value(row.metric, bound, sign=True) for bound in (row.low, row.high))
    is_least = is_least_p(row.p_value, samples)
    return [
        Cell(show_value(row.metric, row.difference, sign=True), strong=significant),
        f"[{low}, {high}]",
        _show_p(row.p_value, is_least=is_least),
        _show_p(row.p_holm, significant, is_least=is_least),
        f"{row.better:,}:{row.worse:,}" if row.direction else "",
        "" if significant else show_value(row.metric, row.detectable),
        "" if significant else _show_queries(row.queries_needed),
    ]


def _name_left_out(reasons: Iterable[Mapping[str, str]]) -> list[str]:
    """What was not compared, a line for each reason."""
    by_reason: dict[str, dict[str, None]] = {}
    for of_model in reasons:
        for reason, keys in group_by_reason(of_model).items():
            by_reason.setdefault(reason, {}).update(dict.fromkeys(keys))
    return [f"not compared: {', '.join(keys)}: {reason}" for reason, keys in by_reason.items()]


def _list_cautions(comparison: Comparison) -> list[str]:
    return [f"note: {note}" for note in comparison.brief_notes]


def _show_queries(needed: int | None) -> str:
    if needed is None:
        return MISSING
    return f">{MOST_QUERIES:,}" if needed > MOST_QUERIES else f"{int(float(f'{needed:.2g}')):,}"


def is_least_p(value: float, samples: int) -> bool:
    """Whether a p-value is the smallest of so many samples, so that more of them could lower it."""
    return value <= least_p_value(samples)


def _show_p(value: float, significant: bool | None = None, *, is_least: bool = False) -> str:
    """A p-value, rounded up if it is an upper bound; a star or a space of its width follows a corrected one."""
    if value < LEAST_SHOWN:
        text = f"<{LEAST_SHOWN}"
    elif is_least and value < 1:
        text = f"\N{LESS-THAN OR EQUAL TO}{math.ceil(round(value / LEAST_SHOWN, 6)) * LEAST_SHOWN:.3f}"
    else:
        text = f"{value:.3f}"
    return text if significant is None else f"{text} {'*' if significant else ' '}"


def _percent(share: float) -> str:
    return f"{100 * share:.12g}%"


def group_ranks(ranks: Iterable[ModelRank]) -> dict[str, dict[str, list[ModelRank]]]:
    """Direction to task to its rows, the directions of pairs of modalities first."""
    order = {direction: place for place, direction in enumerate(DIRECTIONS)}
    groups: dict[str, dict[str, list[ModelRank]]] = {}
    for row in sorted(ranks, key=lambda row: order.get(row.direction, len(order))):
        groups.setdefault(row.direction, {}).setdefault(row.task, []).append(row)
    return groups


def list_rank_tables(comparison: Comparison) -> list[Table]:
    """A table per direction with a row per model and a column per task, and the ranks under any labels."""
    any_labels = comparison.ranks_under_any_labels
    tables = [
        _rank_table(direction, by_task, any_labels.get(direction, {}))
        for direction, by_task in group_ranks(comparison.ranks).items()
    ]
    if tables:
        notes = [
            comparison.explain_ranks(),
            *_explain_any_labels(comparison.ranks, any_labels),
        ]
        tables[-1] = replace(tables[-1], notes=notes)
    return [replace(table, data=comparison.data) for table in tables]


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


def _explain_any_labels(ranks: Iterable[ModelRank], any_labels: Mapping[str, object]) -> list[str]:
    ranked = {row.task for row in ranks}
    labels = list_names(task_name(task) for task in label_tasks() if task in ranked)
    return [f"Any labels: the ranks that a model may have under {labels}."] if any_labels else []
