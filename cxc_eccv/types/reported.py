"""Reports: results and their provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cxc_eccv.terminal import visible
from cxc_eccv.types.json_records import null_if
from cxc_eccv.types.model_options import UNKNOWN, describe_training_data
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.strict_json import COUNT, SHARE, Json, Kind

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SPREAD = "_std"
"""Suffix of a metric's label that stands for the standard deviation over its samples."""

WILSON = ("binomial", "binomial_images")
INTERVAL_METHODS = ("bootstrap", "bootstrap_queries", "random_halves", *WILSON)
"""How an interval was made: by draws of images with all their captions, of queries with all their rated pairs, or of
random halves of the queries as the metric defines; or by Wilson's formula, for the number of queries or of images."""

METHOD = Kind(lambda value: value in INTERVAL_METHODS, f"one of {', '.join(INTERVAL_METHODS)}")
POSITIVE = Kind(lambda value: COUNT.holds(value) and value > 0, "a whole number of at least 1")
WRITTEN = null_if(lambda record: True)
WITH_ESTIMATE = null_if(lambda bounds: bounds.estimate is not None)
WITH_PRECISION = null_if(lambda bounds: bounds.precision is not None)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Range of a value over all labels that unjudged pairs could have.

    Attributes:
        low, high: lowest and highest value under any labels; without K, at most ``bounds_depth`` new positives a query.
        unjudged: number of unjudged retrieved pairs.
        retrieved: number of retrieved pairs.
        expected: mean value under random labels, each pair positive with its probability; None without probabilities.
        estimate, estimate_low, estimate_high: the value if people had judged all of these pairs, estimated from their
            answers about drawn ones, with its confidence interval; None without answers.
        precision, precision_low, precision_high: share of the pairs that a judge calls entailed which people call so,
            estimated from the same answers; None without answers, or if fewer than 30 such pairs were drawn by chance.
    """

    low: float
    high: float
    unjudged: int
    retrieved: Annotated[int, POSITIVE]
    expected: float | None = field(default=None, metadata=WRITTEN)
    estimate: float | None = None
    estimate_low: float | None = field(default=None, metadata=WITH_ESTIMATE)
    estimate_high: float | None = field(default=None, metadata=WITH_ESTIMATE)
    precision: float | None = None
    precision_low: float | None = field(default=None, metadata=WITH_PRECISION)
    precision_high: float | None = field(default=None, metadata=WITH_PRECISION)

    @property
    def share(self) -> float:
        """Share of the retrieved pairs that are unjudged."""
        return self.unjudged / self.retrieved


@dataclass(frozen=True, slots=True)
class Result:
    """One number of a report.

    Attributes:
        task, direction, metric: parts of the key; direction is empty for a number of the whole task.
        value: fraction in [0, 1], or a plain rank.
        low, high: ends of the confidence interval, or None.
        n_queries: number of queries that the value averages.
        ties: number of queries in which an item ties with a positive.
        if_ties_help: the value with items of equal scores in reverse order, so that ties help; None where ties are
            unknown (a ranking without scores) or mean nothing (correlations, pairs that a judge labelled).
        decided_by_ties: number of queries whose value this order changes, or None.
        chance: the value to expect of a random order of each query's gallery; None where no formula is known.
        coverage: share of the needed pairs that are judged, or None where all are.
        parameters: parameters of the metric.
        bounds: bounds over the labels of unjudged pairs, or None.
        interval_method: how the interval was made, one of :data:`INTERVAL_METHODS`, or None.
    """

    task: str
    direction: str
    metric: str
    value: float
    n_queries: Annotated[int, POSITIVE]
    low: float | None = field(default=None, metadata=WRITTEN)
    high: float | None = field(default=None, metadata=WRITTEN)
    ties: int = field(default=0, metadata=WRITTEN)
    if_ties_help: float | None = field(default=None, metadata=WRITTEN)
    decided_by_ties: int | None = field(default=None, metadata=WRITTEN)
    chance: float | None = field(default=None, metadata=WRITTEN)
    coverage: Annotated[float, SHARE] | None = field(default=None, metadata=WRITTEN)
    parameters: Mapping[str, Json] = field(default_factory=dict, metadata=WRITTEN)
    bounds: Bounds | None = None
    interval_method: Annotated[str, METHOD] | None = None

    @property
    def key(self) -> str:
        """``task/direction/metric``, as in report.json.

        Example:
            >>> Result("coco_5k", "i2t", "recall_at_1", 0.5, 5000).key
            'coco_5k/i2t/recall_at_1'
        """
        return "/".join(part for part in (self.task, self.direction, self.metric) if part)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """All results of one run and their provenance.

    ``print`` shows the tables of the command line; a notebook shows them as HTML. How is told by ``cxc_eccv.report``,
    which imports everything below it and is therefore imported only when it is asked for.

    Attributes:
        results: one row per task, direction and metric.
        skipped: task or task/direction to the reason why it was skipped.
        provenance: version and hash of the data, package versions, run file, command.
        per_query: the value of every query, or None unless evaluated with ``per_query=True``. Columns: ``query_id``,
            ``task``, ``direction``, ``metric``, ``value``, and ``best_rank``, the rank of the query's best positive,
            null where the task ranks no positives, ``cluster``, the image that intervals resample, and ``fold``, null
            in a task without folds.
        examples: chosen queries with their top items, or None unless evaluated with ``per_query=True``.
        doubts: name to sentence of what makes the numbers suspect, which every form of the report shows first.

    Example:
        >>> print(Report((Result("coco_5k", "i2t", "recall_at_1", 0.5, 5000, low=0.48, high=0.52),)))
        Scores, percent with 95% interval
                                      i2t
        ──────────────────────────────────
         COCO 5K  R@1   50.0 [48.0, 52.0]
    """

    results: tuple[Result, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    per_query: pa.Table | None = None
    examples: pa.Table | None = field(default=None, compare=False)
    doubts: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the model or of the run file, with the part of the split and the labels it was scored on.

        Example:
            >>> from cxc_eccv.types.provenance import RestrictionFacts, SideShare
            >>> part = RestrictionFacts(images=SideShare(200, 5000))
            >>> Report((), provenance=Provenance(model="CLIP", restriction=part)).name
            'CLIP, on 200 of 5,000 images'
        """
        named = ", on ".join(filter(None, [self.model, *self.provenance.restriction.counts[:1]]))
        return ", ".join(filter(None, [named, f"labels {self.labels}" if self.labels else ""]))

    @property
    def model(self) -> str:
        """Name of the model or of the run file.

        Example:
            >>> from cxc_eccv.types.provenance import RunFacts
            >>> Report((), provenance=Provenance(run=RunFacts(file="clip.npz"))).model
            'clip.npz'
        """
        return self.provenance.model or self.provenance.run.file or ""

    @property
    def training_data(self) -> tuple[str, ...]:
        """What the model was trained on, as its run declares it; ``unknown`` if it does not.

        Example:
            >>> Report((), provenance=Provenance(trained_on=("coco_train",))).training_data, Report(()).training_data
            (('coco_train',), ('unknown',))
        """
        return self.provenance.trained_on or (UNKNOWN,)

    @property
    def trained_on(self) -> str:
        """The same in words, and that a model's card may lack some.

        Example:
            >>> Report((), provenance=Provenance(trained_on=("coco_train", "laion2b"))).trained_on
            'COCO train, laion2b'
        """
        return describe_training_data(self.training_data, self.provenance.trained_on_from)

    @property
    def labels(self) -> str:
        """The sources of labels that replace those of the tasks, or an empty string.

        Example:
            >>> from cxc_eccv.types.provenance import LabelFacts, LabelFileFacts
            >>> facts = LabelFacts(sources=("coco", "mine"), files={"mine": LabelFileFacts(version="1.0.0")})
            >>> Report((), provenance=Provenance(labels=facts)).labels
            'coco + mine 1.0.0'
        """
        return str(self.provenance.labels)

    @property
    def repeated_parts(self) -> Mapping[str, str]:
        """Part to the other part with the same queries and positives, where sources replace the labels of the tasks."""
        return self.provenance.labels.repeats

    def without_repeats(self, keys: Iterable[str]) -> list[str]:
        """The keys of results, of those with the same queries, positives and metric only one.

        Example:
            >>> from cxc_eccv.types.provenance import LabelFacts
            >>> report = Report((), provenance=Provenance(labels=LabelFacts(repeats={"cxc/i2t": "coco_5k/i2t"})))
            >>> report.without_repeats(["coco_5k/i2t/mrr", "cxc/i2t/mrr", "cxc/t2i/mrr"])
            ['coco_5k/i2t/mrr', 'cxc/t2i/mrr']
        """
        keys = list(keys)
        shown: dict[str, str] = {}
        for key in keys:
            part, _, metric = key.rpartition("/")
            other = f"{self.repeated_parts.get(part, part)}/{metric}"
            shown[other] = other if other in keys else shown.get(other, key)
        return [key for key in keys if key in shown.values()]

    @property
    def restriction(self) -> str:
        """The part of the split that was scored, in words; empty for the whole split.

        Example:
            >>> from cxc_eccv.types.provenance import RestrictionFacts, SideShare
            >>> part = RestrictionFacts(limit=200, unreadable_images=2, images=SideShare(198, 5000))
            >>> Report((), provenance=Provenance(restriction=part)).restriction
            '198 of 5,000 images (the first 200 by id, without 2 that could not be read)'
        """
        return str(self.provenance.restriction)

    @property
    def departure(self) -> str:
        """What was scored instead of the whole split, the labels of each task and unmodified files; empty for these.

        Example:
            >>> from cxc_eccv.types.provenance import RestrictionFacts, SideShare
            >>> Report((), provenance=Provenance(restriction=RestrictionFacts(images=SideShare(198, 5000)))).departure
            'a part of the split, 198 of 5,000 images'
        """
        counts, modified = self.provenance.restriction.counts, self.provenance.data.modified
        faults = [
            ", ".join(["a part of the split", *counts]) if counts else "",
            f"the labels {self.labels} instead of those of each task" if self.labels else "",
            f"modified raw files, {', '.join(modified)}" if modified else "",
        ]
        return " and ".join(filter(None, faults))

    @property
    def scores(self) -> dict[str, float]:
        """Key to value, as under ``scores`` in report.json."""
        return {result.key: result.value for result in self.results}

    def to_pandas(self) -> pd.DataFrame:
        """A data frame with one row per result, in the report's units: fractions, plain ranks, RSUM in percent.

        Bounds over unjudged pairs, if the report has them, are in the columns ``bounds_low`` and so on.

        Example:
            >>> report = Report((Result("coco_5k", "i2t", "mrr", 0.5, 5000),))
            >>> frame = report.to_pandas()
            >>> frame.set_index(["task", "direction", "metric"]).loc[("coco_5k", "i2t", "mrr"), "value"].item()
            0.5
        """
        import pandas as pd

        bounded = any(result.bounds is not None for result in self.results)
        rows = [
            {name: getattr(result, name) for name in COLUMNS}
            | {f"bounds_{name}": getattr(result.bounds, name, None) for name in OF_BOUNDS if bounded}
            for result in self.results
        ]
        added = [f"bounds_{name}" for name in OF_BOUNDS if bounded]
        return pd.DataFrame(rows, columns=[*COLUMNS, *added]).astype(dict.fromkeys([*MAYBE_LACKING, *added], float))

    def save(self, folder: str | Path, *, images: str | Path | None = None) -> list[Path]:
        """Write the report to a folder, as ``cxc-eccv evaluate --output`` does; :func:`cxc_eccv.load_report` reads it.

        The files are report.json, per_query.parquet, examples.parquet, report.md and report.html. They replace those
        of an earlier report all at once; other files in the folder are kept. A report evaluated with
        ``per_query=True`` also saves the values of its queries, for comparisons, and example queries.

        Args:
            folder: created if it does not exist.
            images: folder with the image files, at any depth, for thumbnails in the HTML page.

        Returns:
            The paths of the files.

        Raises:
            InvalidOption: ``folder`` is a file, or holds files of these names without a report.json; ``images`` is not
                a folder.
            WriteFailed: another process is writing ``folder``.

        Example:
            >>> import tempfile
            >>> [path.name for path in Report(()).save(f"{tempfile.mkdtemp()}/out")][:2]
            ['report.json', 'per_query.parquet']
        """
        from cxc_eccv.report.folder import save_report

        return save_report(self, folder, images=images)

    def __repr__(self) -> str:
        tasks = len({result.task for result in self.results})
        name, split = self.name or "a run", self.provenance.split or "unknown"
        return visible(f"<Report of {name}: {len(self.results)} results of {tasks} tasks, {split} split>")

    def __str__(self) -> str:
        from cxc_eccv.report.console import report_text

        return report_text(self)

    def _repr_html_(self) -> str:
        from cxc_eccv.report.console import report_html

        return report_html(self)


COLUMNS = [
    *("task", "direction", "metric", "value", "low", "high", "n_queries", "ties"),
    *("if_ties_help", "decided_by_ties", "chance", "coverage", "interval_method"),
]
OF_BOUNDS = (
    *("low", "high", "expected", "estimate", "estimate_low", "estimate_high"),
    *("precision", "precision_low", "precision_high", "unjudged", "retrieved"),
)
MAYBE_LACKING = ("low", "high", "if_ties_help", "decided_by_ties", "chance", "coverage")


def group_by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Reason to the names it applies to, in their order."""
    grouped: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        grouped.setdefault(reason, []).append(name)
    return grouped
