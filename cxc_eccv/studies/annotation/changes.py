"""The effect of new labels: every model's metrics on the labels before and after, with paired intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

from cxc_eccv.comparison.compare_reports import paired_samples
from cxc_eccv.comparison.differences import ComparisonSettings
from cxc_eccv.comparison.pairing import Pair, ScoredReport, pair_up
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import Request
from cxc_eccv.evaluation.calls import evaluate_request
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import interval
from cxc_eccv.tables import Cell, Table
from cxc_eccv.types import FloatArray
from cxc_eccv.types.result import group_by_reason
from cxc_eccv.wording import list_names, metric_name, show_value, task_name

SAMPLES = 1_000

TASKS = ("coco_5k",)
METRICS = ("recall_at_1", "r_precision", "map_at_r")
"""Default metrics: new positives can only raise R@1, but may lower the others."""

MAY_FALL = (
    "A new positive increases R, the number of a query's positives, so R-Precision and mAP@R look at more items and "
    "may fall although the ranking is the same. R@K and the rank of the first positive cannot get worse."
)


@dataclass(frozen=True, slots=True)
class LabelChange:
    """One metric of one model on the labels before and after, in the units of reports."""

    model: str
    task: str
    direction: str
    metric: str
    before: float
    after: float
    difference: float
    low: float  # percentile interval of the difference
    high: float
    place_before: int  # among all models; equal values share the better place
    place_after: int
    better: int  # queries with a better value on the new labels; 0 for a whole task
    worse: int
    n_queries: int
    n_images: int  # resampled images

    @property
    def key(self) -> str:
        """The key in report.json: ``task/direction/metric``."""
        return "/".join(filter(None, (self.task, self.direction, self.metric)))


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """The effect of new labels on models."""

    before: tuple[str, ...]  # names of the sources of labels
    after: tuple[str, ...]
    split: str
    models: tuple[str, ...]
    seed: int
    samples: int
    confidence: float
    changes: tuple[LabelChange, ...]  # a row per model and metric
    not_compared: Mapping[str, Mapping[str, str]]  # model to key to the reason that a metric is left out


def measure_changes(
    runs: Mapping[str, Run], library: Library, request: Request, added: Sequence[str], *, samples: int = SAMPLES
) -> LabelChanges:
    """Evaluate every model on both sets of labels, and resample the differences.

    Queries, galleries and similarities are the same; the positives are those of all sources of a set together. Each
    bootstrap sample draws images with replacement and scores both sets on all their queries; intervals are percentiles
    of the differences.

    Args:
        runs: name of each model to its run.
        library: the raw sources, with the label files among the sources.
        request: tasks, metrics and split, the sources of the labels before, and seed and level of the intervals.
        added: the sources that the labels after have too.
        samples: bootstrap samples.

    Raises:
        InvalidOption: the same sources before and after.
        CxcEccvError: as for :func:`cxc_eccv.evaluate`.
    """
    before = (request.sources,) if isinstance(request.sources, str) else tuple(request.sources or ())
    after = tuple(dict.fromkeys((*before, *added)))
    if before == after:
        raise InvalidOption(f"the labels before and after are both {list_names(before)}; give different sources")
    settings = ComparisonSettings(request.seed, samples, request.confidence or 0.95)
    pairs_of: dict[str, dict[str, tuple[Pair, FloatArray]]] = {}  # key to model to its values and (2, S) samples
    reasons = {}
    for name, run in runs.items():
        reports = [
            evaluate_request(run, replace(request, sources=sources, per_query=True, confidence=None), library)
            for sources in (before, after)
        ]
        pairs, reasons[name] = pair_up(*(ScoredReport.of(name, report) for report in reports))
        drawn = paired_samples(pairs, settings, progress=True) if pairs else {}
        for key, pair in pairs.items():
            pairs_of.setdefault(key, {})[name] = pair, drawn[key]
    rows = tuple(chain(*(_list_changes(of_models, settings.confidence) for of_models in pairs_of.values())))
    return LabelChanges(
        before=before,
        after=after,
        split=request.split,
        models=tuple(runs),
        seed=settings.seed,
        samples=samples,
        confidence=settings.confidence,
        changes=rows,
        not_compared=reasons,
    )


def _list_changes(pairs: Mapping[str, tuple[Pair, FloatArray]], confidence: float) -> Iterator[LabelChange]:
    """Yield a row per model that has the metric."""
    sign = 1 if next(iter(pairs.values()))[0].spec.higher_is_better else -1
    goods = [{name: sign * pair.results[side].value for name, (pair, _) in pairs.items()} for side in (0, 1)]
    for name, (pair, drawn) in pairs.items():
        old, new = pair.results
        low, high = interval(drawn[1] - drawn[0], confidence)
        better, worse = pair.count_changes()
        place_before, place_after = (1 + sum(other > good[name] for other in good.values()) for good in goods)
        yield LabelChange(
            model=name,
            task=new.task,
            direction=new.direction,
            metric=new.metric,
            before=old.value,
            after=new.value,
            difference=new.value - old.value,
            low=low,
            high=high,
            place_before=place_before,
            place_after=place_after,
            better=better,
            worse=worse,
            n_queries=new.n_queries,
            n_images=pair.n_images,
        )


def change_tables(changes: LabelChanges) -> list[Table]:
    """A table per task and direction with all metrics and models, and what is left out."""
    several = len(changes.models) > 1
    header = [(text,) for text in ("", "before", "after", "difference", "better:worse", *["place"] * several)]
    tables = []
    for task, direction in dict.fromkeys((row.task, row.direction) for row in changes.changes):
        rows = [row for row in changes.changes if (row.task, row.direction) == (task, direction)]
        lines: list[Sequence[str | Cell]] = []
        for metric, of_metric in groupby(rows, key=lambda row: row.metric):
            lines += [[metric_name(metric)], *(_show_row(row, several=several) for row in of_metric)]
        title = ", ".join(filter(None, (f"What changed: {task_name(task)}", direction)))
        tables.append(Table(header, lines, title))
    notes = [
        f"Before: positives of {list_names(changes.before)}; after: of {list_names(changes.after)}; both for the "
        f"queries and the gallery of the task. Differences with {100 * changes.confidence:g}% intervals from a paired "
        f"bootstrap over images ({changes.samples:,} samples, seed {changes.seed}); "
        "better:worse counts queries.",
        MAY_FALL,
    ]
    for model, reasons in changes.not_compared.items():
        notes += [f"{model}, {', '.join(keys)}: {reason}." for reason, keys in group_by_reason(reasons).items()]
    *most, last = tables or [Table([], [], "What changed")]
    bold = "Differences whose interval does not contain 0 are in bold." if tables else ""
    return [*most, replace(last, notes=notes, bold=bold)]


def _show_row(row: LabelChange, *, several: bool) -> list[str | Cell]:
    numbers = (row.before, row.after), (row.difference, row.low, row.high)
    values = [show_value(row.metric, number) for number in numbers[0]]
    difference, low, high = (show_value(row.metric, number, sign=True) for number in numbers[1])
    cell = Cell(difference, interval=f"[{low}, {high}]", strong=row.low > 0 or row.high < 0)
    places = dict.fromkeys((str(row.place_before), str(row.place_after)))
    place = [" \N{RIGHTWARDS ARROW} ".join(places)] if several else []
    return [row.model, *values, cell, f"{row.better:,}:{row.worse:,}", *place]
