"""Reports with values of single queries, in pairs: whether they may be compared, and their values by metric."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, UnknownName
from cxc_eccv.metrics.kinds import Spec, WholeMetric
from cxc_eccv.registry import metric_variants, task
from cxc_eccv.report import Report
from cxc_eccv.report.files import PER_QUERY
from cxc_eccv.report.loading import find_report, load_report
from cxc_eccv.types import FloatArray, IntArray, Result
from cxc_eccv.types.provenance import DataFacts
from cxc_eccv.types.result import WITHOUT_RESULTS, group_by_reason
from cxc_eccv.types.strict_json import JsonObject
from cxc_eccv.types.training_data import TRAINING_SETS, UNKNOWN_DATA
from cxc_eccv.wording import heading_of, list_names

NO_VALUES = (
    "A comparison needs the values of single queries. Run cxc-eccv evaluate again with --output, or ce.evaluate with "
    "per_query=True."
)


@dataclass(frozen=True, slots=True, eq=False)
class QueryValues:
    """One metric's value for each query (Q,), by ascending unique ids, and the image behind each query.

    ``folds`` are the folds of the queries, in a task that averages over folds.
    """

    query_ids: IntArray
    values: FloatArray
    clusters: IntArray
    folds: IntArray | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.values).all():
            raise ValueError(f"a value of query {self.query_ids[~np.isfinite(self.values)][0]} that is not finite")
        repeated = np.diff(self.query_ids) == 0
        if repeated.any():
            raise ValueError(f"query {self.query_ids[1:][repeated][0]} twice")

    @classmethod
    def of(cls, query_ids: object, values: object, clusters: object, folds: object = None) -> QueryValues:
        """The values of queries in any order."""
        ids = np.asarray(query_ids, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        images = np.asarray(clusters, dtype=np.int64)
        of_queries = None if folds is None else np.asarray(folds, dtype=np.int64)[order]
        return cls(ids[order], np.asarray(values, dtype=np.float64)[order], images[order], of_queries)


def query_values(table: pa.Table, source: str | Path) -> dict[str, QueryValues]:
    """``task/direction/metric`` to the values of its queries."""
    names = (table[name].cast("string") for name in ("task", "direction", "metric"))
    encoded = pc.binary_join_element_wise(*names, "/").combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    ids, scores, clusters = (table[name].to_numpy() for name in ("query_id", "value", "cluster"))
    folds = table["fold"].combine_chunks()
    values = {}
    for key, start, stop in zip(encoded.dictionary.to_pylist(), bounds[:-1], bounds[1:], strict=True):
        rows = order[start:stop]
        of_key = folds.take(rows)
        of_queries = None if of_key.null_count else of_key
        try:
            values[key] = QueryValues.of(ids[rows], scores[rows], clusters[rows], of_queries)
        except ValueError as error:
            raise MalformedSource(source, key, error, "one finite value per query") from None
    return values


@dataclass(frozen=True, slots=True, eq=False)
class ScoredReport:
    """One model's report and the values of its queries.

    Attributes:
        name: name of the model.
        report: the model's report.
        per_query: ``task/direction/metric`` to the values of its queries.
    """

    name: str
    report: Report
    per_query: Mapping[str, QueryValues] = field(repr=False)

    @classmethod
    def of(cls, name: str, report: Report) -> ScoredReport:
        """A report that holds the values of its queries.

        Args:
            name: name of the model.
            report: a report with ``per_query``.

        Raises:
            DataError: the values are missing or malformed.

        Example:
            >>> import pyarrow as pa
            >>> from cxc_eccv.types import Result
            >>> from cxc_eccv.types.provenance import Provenance
            >>> values = pa.table({"query_id": [3, 5], "task": ["coco_5k"] * 2, "direction": ["i2t"] * 2,
            ...                    "metric": ["mrr"] * 2, "value": [0.5, 1.0], "cluster": [3, 5],
            ...                    "fold": pa.nulls(2, pa.int64())})
            >>> report = Report((Result("coco_5k", "i2t", "mrr", 0.75, 2),), {}, Provenance(split="test"), values)
            >>> ScoredReport.of("mine", report).per_query["coco_5k/i2t/mrr"].clusters.tolist()
            [3, 5]
        """
        if report.per_query is None:
            raise DataError(f"{name}: {NO_VALUES}")
        return cls(name, report, query_values(report.per_query, f"per-query values of {name}"))


def load_reports(
    paths: Sequence[str | Path], names: Sequence[str] | None = None, *, per_labels: bool = False
) -> tuple[ScoredReport, ...]:
    """Reports and the per-query values beside them.

    Args:
        paths: ``report.json`` files, or folders that hold them, such as those of trained models.
        names: names of the models; None for the reports' names, or the folders' names if those are not unique.
        per_labels: whether reports on different labels may have the same name, as reports of the same model.

    Raises:
        DataError: a file is missing or malformed.
        InvalidOption: the number of names is wrong, or they are not unique.

    Example:
        >>> import tempfile
        >>> load_reports([tempfile.mkdtemp()])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        cxc_eccv.errors.DataError: there is no ...report.json. Name a folder that cxc-eccv evaluate --output wrote.
    """
    files = _find_reports(paths)
    reports = [load_report(file) for file in files]
    loaded = []
    for name, report, file in zip(_choose_names(reports, paths, names, per_labels), reports, files, strict=True):
        if not file.with_name(PER_QUERY).is_file():
            raise DataError(f"{file}: no {PER_QUERY} beside it. {NO_VALUES}")
        values = {} if report.per_query is None else query_values(report.per_query, f"per-query values of {name}")
        loaded.append(ScoredReport(name, report, values))
    return tuple(loaded)


def read_reports(paths: Sequence[str | Path], names: Sequence[str] | None = None) -> dict[str, Report]:
    """Model's name to its report, with or without per-query values; arguments as of :func:`load_reports`."""
    reports = [load_report(file) for file in _find_reports(paths)]
    return dict(zip(_choose_names(reports, paths, names), reports, strict=True))


def _find_reports(paths: Sequence[str | Path]) -> list[Path]:
    """The file of each report; refuse one that is given twice."""
    files = [find_report(Path(path)) for path in paths]
    first = {file.resolve(): path for path, file in reversed(list(zip(paths, files, strict=True)))}
    for path, file in zip(paths, files, strict=True):
        if first.pop(file.resolve(), None) is None:
            raise InvalidOption(f"the same report is given twice: {path}. Name each report once")
    return files


def _choose_names(
    reports: Sequence[Report], paths: Sequence[str | Path], names: Sequence[str] | None, per_labels: bool = False
) -> list[str]:
    """The given names, else the reports' names if they are unique, else the names of the folders, else the paths."""
    labels = [labels_of(report) if per_labels else None for report in reports]

    def differ(names: Sequence[str]) -> bool:
        are_enough = len(names) == len(reports) and all(name.strip() for name in names)
        return are_enough and len(set(zip(names, labels, strict=True))) == len(names)

    titles = [report.model if per_labels else report.name for report in reports]
    folders = [(path if path.is_dir() else path.parent).absolute().name for path in map(Path, paths)]
    chosen = list(names) if names else next(filter(differ, (titles, folders)), list(map(str, paths)))
    if not differ(chosen):
        raise InvalidOption(
            f"{len(reports)} reports need {len(reports)} different names, not {', '.join(chosen)}; give --name once "
            "for each report, in their order"
        )
    return chosen


def labels_of(report: Report) -> tuple[str, str]:
    """The name of the labels of a report, and the hashes of their label files, as a version number may be wrong."""
    annotated = report.provenance.label_files
    own = ["each task's own labels", *(f"{name} {file.version}" for name, file in annotated.items())]
    files = sorted({**annotated, **report.provenance.labels.files}.items())
    hashes = " ".join(f"{name} {file.sha256}" for name, file in files)
    return report.labels or " + ".join(own), hashes


LABEL_FILE = "labels_"
"""Beginning of the names of label files among the files of a report."""


WHOLE_HASH = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
"""A sha256, of which a message shows the first digits."""

SAME = "Evaluate both on the same files with the same options"


def check_comparable(baseline: ScoredReport, other: ScoredReport, *, labels: bool = True) -> None:
    """Refuse two reports of different data, splits, parts of a split, protocols, or ``labels``.

    One report may be computed from fewer raw files than the other: a text-only model needs fewer.
    """
    models = (baseline, other)
    data = [_data_of(model) for model in models]
    _check_equal("the data's edition", models, [facts.edition for facts in data])
    _check_equal("the data's version", models, [facts.version for facts in data])
    _check_equal("the split", models, [model.report.provenance.split for model in models])
    _check_equal("the options", models, [model.report.provenance.options for model in models])
    parts = [model.report.provenance.restriction.left_out_sha256 for model in models]
    if parts[0] != parts[1]:
        scored = [model.report.restriction or "the whole split" for model in models]
        _refuse("what was scored", models, scored)
    files = [facts.files for facts in data]
    if labels:
        remedy = f"{SAME}, or see how alike both order three or more models with compare --agreement"
        _check_equal("the set of labels", models, [_labels_of(model) for model in models], remedy=remedy)
        annotated = [
            {name: file.sha256 for name, file in model.report.provenance.label_files.items()} for model in models
        ]
        if all(annotated):
            _check_equal("the label files of annotated", models, annotated)
    else:
        files = [{name: of[name] for name in of if not name.startswith(LABEL_FILE)} for of in files]
    if data[0].fingerprint != data[1].fingerprint:
        shared = files[0].keys() & files[1].keys()
        for name in sorted(shared):
            _check_equal(f"the hash of {name}", models, [hashes[name] for hashes in files])
        if not shared or (files[0].keys() - shared and files[1].keys() - shared):
            _refuse("the data's fingerprint", models, [facts.fingerprint for facts in data])
    judges = [judge_of(model.report) for model in models]
    _check_equal("the judge of pairs without a label", models, judges)
    parameters = [{row.key: _protocol_of(row) for row in model.report.results} for model in models]
    for key in parameters[0]:
        if key in parameters[1]:
            _check_equal(f"parameters of {key}", models, [of_key[key] for of_key in parameters])


def _protocol_of(result: Result) -> dict[str, object]:
    """The parameters of a result, without the number of queries that the run did not rank, which is the model's own."""
    return {name: value for name, value in result.parameters.items() if name != WITHOUT_RESULTS}


def notes_on(*models: ScoredReport) -> list[str]:
    """Differences that do not prevent a comparison but that a reader should know."""
    modified = {
        f"modified data: {name}, sha256 {hashes.found}, expected {hashes.expected}": None
        for model in models
        for name, hashes in _data_of(model).modified.items()
    }
    notes = list(modified)
    facts = {model.name: model.report.provenance for model in models}
    versions = {name: entries.package.version for name, entries in facts.items()}
    similarities = {name: str(entries.similarity) for name, entries in facts.items()}
    for title, values in (("package version", versions), ("similarity", similarities)):
        if len(set(values.values())) > 1:
            groups = group_by_reason(values).items()
            notes.append(f"{title}: {', '.join(f'{value} for {list_names(names)}' for value, names in groups)}")
    return notes


def list_coverages(*models: ScoredReport) -> dict[str, dict[str, float]]:
    """Key to the share of judged pairs of each model, of the metrics under which these shares differ."""
    shares: dict[str, dict[str, float]] = {}
    for model in models:
        for row in model.report.results:
            if row.coverage is not None:
                shares.setdefault(row.key, {})[model.name] = row.coverage
    return {key: of_key for key, of_key in shares.items() if len(set(of_key.values())) > 1}


def coverage_notes(baseline: ScoredReport, other: ScoredReport) -> list[str]:
    """A line for each metric of two models with different shares of judged pairs."""
    return [
        f"{key}: {of_key[baseline.name]:.1%} of the pairs are judged for {baseline.name}, {of_key[other.name]:.1%} for "
        f"{other.name}"
        for key, of_key in list_coverages(baseline, other).items()
    ]


def coverage_note(*models: ScoredReport) -> list[str]:
    """One line for all models and metrics, with the first metric as the example."""
    return [
        f"the share of judged pairs differs, {' '.join(filter(None, heading_of(key)))}: {min(of_key.values()):.1%} to "
        f"{max(of_key.values()):.1%}"
        for key, of_key in list(list_coverages(*models).items())[:1]
    ]


def collect_doubts(reports: Mapping[str, Report]) -> dict[str, tuple[str, ...]]:
    """Name of each model whose numbers are suspect to the sentences that say why."""
    return {name: tuple(report.doubts.values()) for name, report in reports.items() if report.doubts}


def list_doubts(models: Sequence[ScoredReport]) -> list[str]:
    """What makes the numbers of a model suspect, a line each."""
    return [f"check {model.name} first: {sentence}" for model in models for sentence in model.report.doubts.values()]


def training_notes(models: Sequence[ScoredReport]) -> list[str]:
    """What the models were trained on, if any of them says so."""
    trained_on = {model.name: model.report.trained_on for model in models}
    unknown = TRAINING_SETS[UNKNOWN_DATA]
    if set(trained_on.values()) == {unknown}:
        return []
    return [
        f"{'training data unknown' if data == unknown else f'trained on {data}'}: {', '.join(names)}"
        for data, names in group_by_reason(trained_on).items()
    ]


def _data_of(model: ScoredReport) -> DataFacts:
    data = model.report.provenance.data
    if not data.fingerprint:
        raise InvalidOption(
            f"{model.name}: its report does not say which data it was computed from. Evaluate the model again with "
            "this version."
        )
    return data


def _labels_of(model: ScoredReport) -> str:
    """The sources that replace those of the tasks, with hashes of label files, as a version number may be wrong."""
    hashes = [f"{name} of sha256 {file.sha256}" for name, file in model.report.provenance.labels.files.items()]
    return ", ".join([model.report.labels or "those of the tasks", *hashes])


def judge_of(report: Report) -> JsonObject | None:
    """The classifier that labelled pairs without a label, without the number of pairs; None without one."""
    judge = report.provenance.unjudged
    return None if judge is None else judge.identity


def _check_equal(
    what: str, models: tuple[ScoredReport, ScoredReport], values: Sequence[object], *, remedy: str = SAME
) -> None:
    if values[0] != values[1]:
        _refuse(what, models, values, remedy=remedy)


def _refuse(
    what: str, models: tuple[ScoredReport, ScoredReport], values: Sequence[object], *, remedy: str = SAME
) -> NoReturn:
    baseline, other = models
    value, wanted = (WHOLE_HASH.sub(r"\1", repr(each)) for each in values)
    raise InvalidOption(
        f"{baseline.name} and {other.name} cannot be compared: {what} is {value} for {baseline.name} and {wanted} "
        f"for {other.name}. {remedy}."
    )


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """One metric of two models, or with :meth:`join` of more: values (Q, M) and the image (Q,) behind each query.

    A metric over a whole task has no values. Its parts are keys of other pairs, and its images are those of its parts.
    ``folds`` are the folds of the queries, in a task that averages over folds.
    """

    results: tuple[Result, ...]
    spec: Spec
    values: FloatArray
    images: IntArray
    parts: tuple[str, ...] = ()
    folds: IntArray | None = None

    @property
    def n_images(self) -> int:
        """The number of images behind the queries."""
        return int(np.unique(self.images).size)

    def count_changes(self) -> tuple[int, int]:
        """The numbers of queries on which the second model is better, and worse, than the first."""
        gains = (self.values[:, 1] - self.values[:, 0]) * (1 if self.spec.higher_is_better else -1)
        return int(np.count_nonzero(gains > 0)), int(np.count_nonzero(gains < 0))

    @classmethod
    def join(cls, pairs: Sequence[Pair]) -> Pair:
        """The baseline that all pairs share, and the other model of each."""
        first = pairs[0]
        results = (first.results[0], *(pair.results[1] for pair in pairs))
        values = np.concatenate([first.values[:, :1], *(pair.values[:, 1:] for pair in pairs)], axis=1)
        return cls(results, first.spec, values, first.images, first.parts, first.folds)


def pair_up(baseline: ScoredReport, other: ScoredReport) -> tuple[dict[str, Pair], dict[str, str]]:
    """The pair of each key, and the reasons why other keys cannot be compared."""
    rows = [{row.key: row for row in model.report.results} for model in (baseline, other)]
    paired: dict[str, Pair | str] = {}
    keys = list(dict.fromkeys([*rows[0], *rows[1]]))
    for key in sorted(keys, key=lambda key: key.count("/"), reverse=True):  # parts first
        lacking = [model.name for model, of_key in zip((baseline, other), rows, strict=True) if key not in of_key]
        if lacking:
            paired[key] = f"not in the report of {lacking[0]}"
        else:
            paired[key] = _pair_of((rows[0][key], rows[1][key]), baseline, other, paired)
    ordered = {key: paired[key] for key in keys}
    pairs = {key: pair for key, pair in ordered.items() if isinstance(pair, Pair)}
    return pairs, {key: reason for key, reason in ordered.items() if isinstance(reason, str)}


def _pair_of(
    results: tuple[Result, Result], baseline: ScoredReport, other: ScoredReport, pairs: Mapping[str, Pair | str]
) -> Pair | str:
    """The pair, or the reason why the metric cannot be compared."""
    row = results[0]
    try:
        spec = metric_variants(row.metric)[0]
    except UnknownName:
        spec = None
    if spec is not None and not row.direction:
        return _pair_of_whole(results, spec, pairs)
    values = [model.per_query[row.key] for model in (baseline, other) if row.key in model.per_query]
    if len(values) < len(results):
        return "there are no values of single queries"
    if spec is None:
        return "this version does not know the metric"
    return _align(results, spec, *values)


def _align(results: tuple[Result, Result], spec: Spec, old: QueryValues, new: QueryValues) -> Pair | str:
    if not np.array_equal(old.query_ids, new.query_ids):
        apart = np.setxor1d(old.query_ids, new.query_ids).size
        return f"the models are scored on different queries: {apart:,} queries count for only one of them"
    if not np.array_equal(old.clusters, new.clusters):
        return "the reports disagree on the images of its queries"
    return Pair(results, spec, np.stack([old.values, new.values], axis=1), old.clusters, folds=old.folds)


def _pair_of_whole(results: tuple[Result, Result], spec: Spec, pairs: Mapping[str, Pair | str]) -> Pair | str:
    """The pair of a metric over all directions of a task, for example RSUM, from the pairs of its parts."""
    row = results[0]
    parts: tuple[str, ...] = ()
    if isinstance(spec, WholeMetric):
        directions = [part.name for part in task(row.task).parts_with(spec.of.reads)]
        parts = tuple(f"{row.task}/{direction}/{label}" for direction in directions for label in spec.inputs)
    of_parts = [pairs.get(part) for part in parts]
    images = [np.unique(pair.images) for pair in of_parts if isinstance(pair, Pair)]
    if len(images) < len(parts) or not parts:
        lacking = [part for part, pair in zip(parts, of_parts, strict=True) if not isinstance(pair, Pair)]
        return f"it is computed from {', '.join(lacking) or 'other scores'}, which cannot be compared"
    return Pair(results, spec, np.zeros((0, 2)), np.unique(np.concatenate(images)), parts)
