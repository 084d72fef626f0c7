"""Reports with the values of their queries and the image behind each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.evaluation.report_files import PER_QUERY, PER_QUERY_SCHEMA, find_report, read_own_table, read_report
from cxc_eccv.types import FloatArray, IntArray, Report

NO_VALUES = (
    "A comparison needs the values of single queries. Run cxc-eccv evaluate again with --output, or ce.evaluate with "
    "per_query=True."
)


@dataclass(frozen=True, slots=True, eq=False)
class QueryValues:
    """One metric's value for each query (Q,), by ascending unique ids, and the image behind each query."""

    query_ids: IntArray
    values: FloatArray
    clusters: IntArray

    def __post_init__(self) -> None:
        if not np.isfinite(self.values).all():
            raise ValueError(f"a value of query {self.query_ids[~np.isfinite(self.values)][0]} that is not finite")
        repeated = np.diff(self.query_ids) == 0
        if repeated.any():
            raise ValueError(f"query {self.query_ids[1:][repeated][0]} twice")

    @classmethod
    def of(cls, query_ids: object, values: object, clusters: object) -> QueryValues:
        """The values of queries in any order."""
        ids = np.asarray(query_ids, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        images = np.asarray(clusters, dtype=np.int64)
        return cls(ids[order], np.asarray(values, dtype=np.float64)[order], images[order])


def query_values(table: pa.Table, source: str | Path) -> dict[str, QueryValues]:
    """``task/direction/metric`` to the values of its queries."""
    names = (table[name].cast("string") for name in ("task", "direction", "metric"))
    encoded = pc.binary_join_element_wise(*names, "/").combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    columns = [table[name].to_numpy() for name in ("query_id", "value", "cluster")]
    values = {}
    for key, start, stop in zip(encoded.dictionary.to_pylist(), bounds[:-1], bounds[1:], strict=True):
        rows = order[start:stop]
        try:
            values[key] = QueryValues.of(*(column[rows] for column in columns))
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
            ...                    "metric": ["mrr"] * 2, "value": [0.5, 1.0], "cluster": [3, 5]})
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
        cxc_eccv.errors.DataError: ...report.json: cannot be read (... Give a report that evaluate --output wrote.
    """
    files = [find_report(Path(path)) for path in paths]
    reports = [read_report(file) for file in files]
    loaded = []
    for name, report, file in zip(_choose_names(reports, paths, names, per_labels), reports, files, strict=True):
        if not file.with_name(PER_QUERY).is_file():
            raise DataError(f"{file}: no {PER_QUERY} beside it. {NO_VALUES}")
        values = read_own_table(file, PER_QUERY, PER_QUERY_SCHEMA)
        loaded.append(ScoredReport.of(name, replace(report, per_query=values)))
    return tuple(loaded)


def read_reports(paths: Sequence[str | Path], names: Sequence[str] | None = None) -> dict[str, Report]:
    """Model's name to its report, without per-query values; arguments as of :func:`load_reports`."""
    reports = [read_report(find_report(Path(path))) for path in paths]
    return dict(zip(_choose_names(reports, paths, names), reports, strict=True))


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
        raise InvalidOption(f"{len(reports)} reports need {len(reports)} different names, not {', '.join(chosen)}")
    return chosen


def labels_of(report: Report) -> tuple[str, str]:
    """The name of the labels of a report, and the hashes of their label files, as a version number may be wrong."""
    annotated = report.provenance.label_files
    own = ["each task's own labels", *(f"{name} {file.version}" for name, file in annotated.items())]
    files = sorted({**annotated, **report.provenance.labels.files}.items())
    hashes = " ".join(f"{name} {file.sha256}" for name, file in files)
    return report.labels or " + ".join(own), hashes
