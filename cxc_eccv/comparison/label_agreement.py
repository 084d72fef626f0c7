"""Agreement of metrics, and of sets of labels, on the order of models: Kendall's tau-b with intervals over images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cxc_eccv import registry
from cxc_eccv.comparison.compare_reports import paired_samples
from cxc_eccv.comparison.differences import ComparisonSettings
from cxc_eccv.comparison.pairing import Pair, ScoredReport, check_comparable, labels_of, pair_up, training_notes
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.presentation import Section, ShownResult
from cxc_eccv.report import Report
from cxc_eccv.statistics import interval
from cxc_eccv.statistics.agreement import SignArray, order_signs, tau_b
from cxc_eccv.tables import Cell, Table, interval_cell
from cxc_eccv.terminal import visible
from cxc_eccv.types import FloatArray
from cxc_eccv.types.result import group_by_reason
from cxc_eccv.types.strict_json import Json
from cxc_eccv.wording import count, heading_of, name_data, show_value, unit_of

FEWEST_MODELS = 3
SAMPLES = 10_000
SAME_ORDER = 0.8
"""Values above it are in bold, as in Table 5 of the ECCV Caption paper."""


@dataclass(frozen=True, slots=True)
class OrderAgreement:
    """Kendall's tau-b between the orders of the models under two metrics, or under one metric on two sets of labels.

    Attributes:
        metric, other_metric: keys as in report.json, without direction for a mean of both.
        labels, other_labels: the labels of each.
        tau: 1 for the same order, -1 for the reverse.
        low, high: percentile interval over samples of images.
    """

    metric: str
    other_metric: str
    labels: str
    other_labels: str
    tau: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class OrderedModel:
    """A model's score under a metric on a set of labels.

    Attributes:
        metric: key as in report.json, without direction for a mean of both.
        labels: the labels.
        model: name of the model.
        value: the score.
        low, high: percentile interval over samples of images.
    """

    metric: str
    labels: str
    model: str
    value: float
    low: float
    high: float

    @property
    def cell(self) -> Cell:
        """The score with its interval."""
        value, low, high = (
            show_value(self.metric.rpartition("/")[2], each) for each in (self.value, self.low, self.high)
        )
        return Cell(value, interval=f"[{low}, {high}]")


@dataclass(frozen=True, slots=True, repr=False)
class ModelAgreement(ShownResult):
    """How alike metrics and sets of labels order models; it shows its tables when printed.

    Attributes:
        models: names of the models.
        labels: the sets of labels, in the order of the reports.
        settings: seed, samples, confidence and metrics.
        rows: the pairs of metrics of each set of labels, then each metric under pairs of sets.
        scores: of each metric that several sets of labels share, the best models on the first set first.
        notes: what was left out, and why.
        data: split and edition of the data, in words.
    """

    page_template: ClassVar[tuple[str, str]] = ("compared.html.jinja", "cxc_eccv.comparison")

    models: tuple[str, ...]
    labels: tuple[str, ...]
    settings: ComparisonSettings
    rows: tuple[OrderAgreement, ...]
    scores: tuple[OrderedModel, ...] = ()
    notes: tuple[str, ...] = ()
    data: str = ""

    def between(self, metric: str, other: str, labels: str | None = None, other_labels: str | None = None) -> float:
        """Tau-b of two metrics on the first set of labels, or on the named ones."""
        first = labels or self.labels[0]
        sides = ((metric, first), (other, other_labels or first))
        if sides[0] == sides[1]:
            return 1.0
        for row in self.rows:
            if {(row.metric, row.labels), (row.other_metric, row.other_labels)} == set(sides):
                return row.tau
        raise DataError(f"there is no agreement of {metric} and {other} on these labels")

    def records(self) -> list[dict[str, Json]]:
        """A row per pair."""
        return [asdict(row) for row in self.rows]

    def tables(self) -> list[Table]:
        """A triangle of metrics for each set of labels, the scores on all sets, and tau-b between each two."""
        interval = f"with {100 * self.settings.confidence:g}% interval"
        subtitle = f"Kendall's tau-b {interval}"
        tables = []
        for labels in self.labels:
            rows = [row for row in self.rows if row.labels == row.other_labels == labels]
            named = f", {labels}" if len(self.labels) > 1 else ""
            tables += [_triangle(rows, f"Agreement of metrics{named}", subtitle)] if rows else []
        for metric in dict.fromkeys(score.metric for score in self.scores):
            unit = unit_of(metric.rpartition("/")[2])
            tables.append(self._score_table(metric, f"{'in percent ' * (unit == 'percent')}{interval}"))
        for first, second in combinations(self.labels, 2):
            of_pair = [row for row in self.rows if (row.labels, row.other_labels) == (first, second)]
            cells: list[Sequence[str | Cell]] = [[_name(row.metric), _cell(row)] for row in of_pair]
            title = f"Agreement of labels: {first}, and {second}"
            tables += [Table([("",), ("tau-b",)], cells, title, subtitle)] if cells else []
        cautions = [f"note: {note}" for note in self.notes]
        bold = f"Agreement above {SAME_ORDER} is in bold."
        last = replace(tables[-1], notes=[self._legend], cautions=cautions, bold=bold)
        return [replace(table, data=self.data) for table in [*tables[:-1], last]]

    @property
    def title(self) -> str:
        """How many models are compared."""
        return f"Comparison of {count(len(self.models), 'model')}"

    def record(self) -> dict[str, object]:
        """The content of ``compare.json``."""
        return {"schema": 1, "agreement": asdict(self)}

    def sections(self) -> list[Section]:
        """One, with all tables."""
        return [Section("agreement", "Agreement", self.tables())]

    def page_content(self, images: str | Path | None = None) -> dict[str, Any]:
        """No baseline and no ranks."""
        return {"baseline": "", "confidence": self.settings.confidence, "ranks": {}, "charts": {}}

    def _score_table(self, metric: str, subtitle: str) -> Table:
        """A row per model and a column per set of labels."""
        rows: dict[str, list[str | Cell]] = {}
        for score in self.scores:
            if score.metric == metric:
                rows.setdefault(score.model, [score.model]).append(score.cell)
        header = [("",), *((labels,) for labels in self.labels)]
        return Table(header, list(rows.values()), f"{_name(metric)} on each set of labels", subtitle)

    @property
    def _legend(self) -> str:
        return (
            f"{len(self.models)} models: {', '.join(self.models)}. 1: the same order; -1: the reverse. "
            f"A task with both directions counts by their mean. "
            f"Intervals from {self.settings.samples:,} samples of the images, seed {self.settings.seed}."
        )

    def __repr__(self) -> str:
        return visible(f"<Agreement of {len(self.rows)} pairs of orders of {len(self.models)} models>")


def _triangle(rows: Sequence[OrderAgreement], title: str, subtitle: str) -> Table:
    """A row per metric but the first, and a column per metric but the last."""
    cells = {(row.metric, row.other_metric): _cell(row) for row in rows}
    columns = list(dict.fromkeys(row.metric for row in rows))
    others = list(dict.fromkeys(row.other_metric for row in rows))
    lines: list[Sequence[str | Cell]] = [
        [_name(other), *(cells.get((column, other), "") for column in columns)] for other in others
    ]
    return Table([("", "", ""), *map(heading_of, columns)], lines, title, subtitle)


def _name(key: str) -> str:
    return " ".join(filter(None, heading_of(key)))


def _cell(row: OrderAgreement) -> Cell:
    return interval_cell(row.tau, row.low, row.high, "{:.2f}", strong=row.tau > SAME_ORDER)


def measure_agreement(
    *reports: Report | ScoredReport,
    seed: int = 0,
    samples: int | None = None,
    confidence: float = 0.95,
    metrics: str = "main",
    progress: bool = True,
) -> ModelAgreement:
    """Measure how alike metrics, and sets of labels, order three or more models.

    Reports of the same models on other labels may be given together; they are matched by the names of the models. Every
    metric is drawn on the same samples of images.

    Args:
        *reports: reports with ``per_query``, or results of :func:`load_reports`.
        seed: seed of the bootstrap.
        samples: bootstrap samples; None for 10,000.
        confidence: confidence of the intervals.
        metrics: ``main`` for the main metric of each task, ``all`` for every metric that all reports have.
        progress: show a bar when standard error is a terminal.

    Raises:
        InvalidOption: there are fewer than three models, sets of labels have different models, reports are of different
            data, splits or protocols, an option is out of range, or no two metrics order the models.

    References:
        Chun et al., ECCV 2022, Table 5; Kendall, The treatment of ties in ranking problems, Biometrika 1945.

    Example:
        >>> from cxc_eccv.comparison import QueryValues
        >>> from cxc_eccv.report import Report
        >>> from cxc_eccv.types import Result
        >>> from cxc_eccv.types.provenance import DataFacts, Provenance
        >>> facts = Provenance(data=DataFacts(fingerprint="f"), split="test")
        >>> def scored(name, **shares):
        ...     keys = {f"{task}/i2t/recall_at_1": np.arange(100) < share for task, share in shares.items()}
        ...     rows = [Result(*key.split("/"), hits.mean(), 100) for key, hits in keys.items()]
        ...     values = {key: QueryValues.of(range(100), hits, range(100)) for key, hits in keys.items()}
        ...     return ScoredReport(name, Report(tuple(rows), {}, facts), values)
        >>> models = scored("a", coco_5k=10, cxc=20), scored("b", coco_5k=40, cxc=90), scored("c", coco_5k=70, cxc=50)
        >>> found = measure_agreement(*models)
        >>> round(found.between("coco_5k/i2t/recall_at_1", "cxc/i2t/recall_at_1"), 4)
        0.3333
    """
    settings = ComparisonSettings(seed, SAMPLES if samples is None else samples, confidence, metrics)
    models = [ScoredReport.of(each.model, each) if isinstance(each, Report) else each for each in reports]
    sets = [_LabelSet.of(labels, of_labels, metrics) for labels, of_labels in _group_by_labels(models).items()]
    pairs = {each.mark(key): each.marked(pair) for each in sets for key, pair in each.pairs.items()}
    images = np.unique(np.concatenate([pair.images for pair in pairs.values()]))
    drawn = paired_samples(pairs, settings, images=images, progress=progress)
    scores = [{name: each.score(parts, drawn) for name, parts in each.orders.items()} for each in sets]
    every = [
        {name: order_signs(each.sign(name) * values) for name, values in of_set.items()}
        for each, of_set in zip(sets, scores, strict=True)
    ]
    signs = [{name: of_order for name, of_order in of_set.items() if of_order[:, 0].any()} for of_set in every]
    rows = []
    for each, of_set in zip(sets, signs, strict=True):
        for name, other in combinations([name for name in each.shown if name in of_set], 2):
            tau, low, high = _agree(of_set[name], of_set[other], confidence)
            rows.append(OrderAgreement(name, other, each.labels, each.labels, tau, low, high))
    for (each, of_set), (second, of_second) in combinations(zip(sets, signs, strict=True), 2):
        for name in [name for name in of_set if name in of_second]:
            tau, low, high = _agree(of_set[name], of_second[name], confidence)
            rows.append(OrderAgreement(name, name, each.labels, second.labels, tau, low, high))
    notes = [*training_notes(sets[0].models), *dict.fromkeys(note for each in sets for note in each.notes)]
    tied = sorted({name for of_set, untied in zip(every, signs, strict=True) for name in of_set.keys() - untied.keys()})
    notes += [f"left out, as all models tie: {', '.join(tied)}"] if tied else []
    if not rows:
        raise InvalidOption("; ".join(["there are no two metrics whose orders could agree", *notes]))
    names = tuple(model.name for model in sets[0].models)
    labels = tuple(each.labels for each in sets)
    return ModelAgreement(
        names,
        labels,
        settings,
        tuple(rows),
        tuple(_list_scores(sets, scores, confidence)),
        tuple(notes),
        name_data(sets[0].models[0].report.results, sets[0].models[0].report.provenance),
    )


def _list_scores(
    sets: Sequence[_LabelSet], scores: Sequence[Mapping[str, FloatArray]], confidence: float
) -> Iterator[OrderedModel]:
    """The scores under each metric that all of several sets have."""
    for metric in scores[0] if len(sets) > 1 else ():
        if not all(metric in of_set for of_set in scores):
            continue
        for place in np.argsort(-sets[0].sign(metric) * scores[0][metric][:, 0], kind="stable"):
            for each, of_set in zip(sets, scores, strict=True):
                value, *drawn = of_set[metric][place]
                ends = interval(np.array(drawn), confidence)
                yield OrderedModel(metric, each.labels, each.models[place].name, float(value), *ends)


def _group_by_labels(reports: Sequence[ScoredReport]) -> dict[str, list[ScoredReport]]:
    """Labels to the reports on them, those of each in the order of the models of the first."""
    by_labels: dict[tuple[str, str], list[ScoredReport]] = {}
    for report in reports:
        by_labels.setdefault(labels_of(report.report), []).append(report)
    titles = [title for title, _ in by_labels]
    groups = {
        title if titles.count(title) == 1 else f"{title}, sha256 {hashes}": group
        for (title, hashes), group in by_labels.items()
    }
    first = next(iter(groups.values()), [])
    names = [report.name for report in first]
    if len(names) < FEWEST_MODELS:
        raise InvalidOption(
            f"{next(iter(groups), 'no labels')}: {count(len(names), 'model')}; the agreement of orders needs at least "
            f"{FEWEST_MODELS} models on each set of labels"
        )
    for labels, group in groups.items():
        others = [report.name for report in group]
        if sorted(others) != sorted(names) or len(set(others)) < len(others):
            raise InvalidOption(
                f"every set of labels needs the same models, each once: {labels} has {', '.join(others)}, and "
                f"{next(iter(groups))} {', '.join(names)}. Name the models alike (--name, once for each report)."
            )
        check_comparable(first[0], group[0], labels=False)
        group.sort(key=lambda report: names.index(report.name))
    return groups


@dataclass(frozen=True, slots=True)
class _LabelSet:
    """The models on one set of labels: the values of each key, and the keys that each order averages."""

    labels: str
    models: Sequence[ScoredReport]
    pairs: Mapping[str, Pair]
    orders: Mapping[str, Sequence[str]]
    notes: Sequence[str]

    @classmethod
    def of(cls, labels: str, models: Sequence[ScoredReport], metrics: str) -> _LabelSet:
        """The metrics that all models have."""
        first, *rest = models
        for other in rest:
            check_comparable(first, other)
        paired, reasons = zip(*(pair_up(first, other) for other in rest), strict=True)
        shared = [key for key in paired[0] if all(key in each for each in paired)]
        pairs = {key: Pair.join([each[key] for each in paired]) for key in shared}
        keys = [key for key in shared if metrics == "all" or registry.is_main(key)]
        every = {key: why for each in reasons for key, why in each.items()}
        left_out = {key: why for key, why in every.items() if metrics == "all" or registry.is_main(key)}
        notes = [f"left out: {', '.join(names)}: {why}" for why, names in group_by_reason(left_out).items()]
        if not keys:
            raise InvalidOption("; ".join(["the models share no metric that can be compared", *notes]))
        needed = {*keys, *(part for key in keys for part in pairs[key].parts)}
        return cls(labels, models, {key: pairs[key] for key in pairs if key in needed}, _merge_directions(keys), notes)

    @property
    def shown(self) -> list[str]:
        """The orders without those whose queries and positives are those of an earlier one."""
        once = set(self.models[0].report.without_repeats(key for parts in self.orders.values() for key in parts))
        return [name for name, parts in self.orders.items() if once.intersection(parts)]

    def mark(self, key: str) -> str:
        """The key among those of all sets."""
        return f"{self.labels}/{key}"

    def marked(self, pair: Pair) -> Pair:
        """The pair with its parts among those of all sets."""
        return replace(pair, parts=tuple(map(self.mark, pair.parts)))

    def score(self, parts: Sequence[str], drawn: Mapping[str, FloatArray]) -> FloatArray:
        """(M, 1 + S) mean over keys of each model: in the reports, then in each sample."""
        scores = [
            np.column_stack([[row.value for row in self.pairs[key].results], drawn[self.mark(key)]]) for key in parts
        ]
        return np.asarray(np.mean(scores, axis=0))

    def sign(self, name: str) -> int:
        """1 if higher values of an order are better, else -1."""
        return 1 if self.pairs[self.orders[name][0]].spec.higher_is_better else -1


def _merge_directions(keys: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Key without direction to the two keys that it averages, or a key to itself where a task has no second one."""
    orders: dict[str, tuple[str, ...]] = {}
    for key in keys:
        task, *direction, metric = key.split("/")
        both = tuple(f"{task}/{way}/{metric}" for way in ("i2t", "t2i"))
        is_mean = direction in (["i2t"], ["t2i"]) and set(both) <= set(keys)
        orders.setdefault(f"{task}/{metric}" if is_mean else key, both if is_mean else (key,))
    return orders


def _agree(first: SignArray, second: SignArray, confidence: float) -> tuple[float, float, float]:
    """Tau-b of two orders and its interval, over the samples in which not all models tie."""
    tau = tau_b(first, second)
    low, high = interval(tau[1:][np.isfinite(tau[1:])], confidence)
    return float(tau[0]), low, high
