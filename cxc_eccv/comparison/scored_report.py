"""Reports with the values of their queries and the image behind each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing
from cxc_eccv.evaluation.report import images_behind
from cxc_eccv.evaluation.report_files import PER_QUERY, PER_QUERY_SCHEMA, find_report, read_report
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.reading import read_table
from cxc_eccv.types import DIRECTIONS, FloatArray, IntArray, Report, positions_of

CLUSTER = "cluster"
COLUMNS = ("query_id", "task", "direction", "metric", "value")
NO_VALUES = (
    "A comparison needs the values of single queries. Run cxc-eccv evaluate again with --output, or ce.evaluate with "
    "per_query=True."
)


@dataclass(frozen=True, slots=True, eq=False)
class QueryValues:
    """One metric's value for each query (Q,), by ascending unique ids, and the image behind each query if known."""

    query_ids: IntArray
    values: FloatArray
    clusters: IntArray | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.values).all():
            raise ValueError(f"a value of query {self.query_ids[~np.isfinite(self.values)][0]} that is not finite")
        repeated = np.diff(self.query_ids) == 0
        if repeated.any():
            raise ValueError(f"query {self.query_ids[1:][repeated][0]} twice")

    @classmethod
    def of(cls, query_ids: object, values: object, clusters: object = None) -> QueryValues:
        """The values of queries in any order."""
        ids = np.asarray(query_ids, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        images = None if clusters is None else np.asarray(clusters, dtype=np.int64)[order]
        return cls(ids[order], np.asarray(values, dtype=np.float64)[order], images)


def query_values(table: pa.Table, source: str | Path) -> dict[str, QueryValues]:
    """``task/direction/metric`` to the values of its queries."""
    checked = _check_columns(table, source)
    keys = pc.binary_join_element_wise(checked["task"], checked["direction"], checked["metric"], "/")
    encoded = keys.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    names = ("query_id", "value", CLUSTER)
    columns = [checked[name].to_numpy() if name in checked.column_names else None for name in names]
    values = {}
    for key, start, stop in zip(encoded.dictionary.to_pylist(), bounds[:-1], bounds[1:], strict=True):
        rows = order[start:stop]
        try:
            values[key] = QueryValues.of(*(None if column is None else column[rows] for column in columns))
        except ValueError as error:
            raise MalformedSource(source, key, error, "one finite value per query") from None
    return values


def _check_columns(table: pa.Table, source: str | Path) -> pa.Table:
    names = [*COLUMNS, *([CLUSTER] if CLUSTER in table.column_names else [])]
    wanted = {name: _decode(PER_QUERY_SCHEMA.field(name).type) for name in names}
    for name, kind in wanted.items():
        if name not in table.column_names:
            raise MalformedSource(source, "", f"the columns {', '.join(table.column_names)}", f"{name} among them")
        column, decoded = table[name], _decode(table[name].type)
        if decoded != kind and not (kind == pa.string() and pa.types.is_large_string(decoded)):
            raise MalformedSource(source, f"column {name}", column.type, str(kind))
        if column.null_count:
            raise MalformedSource(source, f"column {name}", f"{column.null_count} nulls", "none")
    return table.select(names).cast(pa.schema(wanted))


def _decode(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


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
    def of(cls, name: str, report: Report, data_dir: str | Path | Library | None = None) -> ScoredReport:
        """A report that holds the values of its queries.

        Args:
            name: name of the model.
            report: a report with ``per_query``.
            data_dir: folder of the raw files; they are read only if ``per_query`` has no column ``cluster`` with the
                image of each query.

        Raises:
            DataError: the values are missing or malformed, or the raw files are not those of the report.

        Example:
            >>> import pyarrow as pa
            >>> from cxc_eccv.types import Result
            >>> values = pa.table({"query_id": [3, 5], "task": ["coco_5k"] * 2, "direction": ["i2t"] * 2,
            ...                    "metric": ["mrr"] * 2, "value": [0.5, 1.0], "cluster": [3, 5]})
            >>> report = Report((Result("coco_5k", "i2t", "mrr", 0.75, 2),), {}, {"split": "test"}, values)
            >>> ScoredReport.of("mine", report).per_query["coco_5k/i2t/mrr"].clusters.tolist()
            [3, 5]
        """
        if report.per_query is None:
            raise DataError(f"{name}: {NO_VALUES}")
        library = data_dir if isinstance(data_dir, Library) else Library(data_dir, offline=True)
        values = query_values(report.per_query, f"per-query values of {name}")
        return cls(name, report, _add_images(values, report, name, library))


def load_reports(
    paths: Sequence[str | Path], names: Sequence[str] | None = None, data_dir: str | Path | None = None
) -> tuple[ScoredReport, ...]:
    """Reports and the per-query values beside them.

    Args:
        paths: ``report.json`` files, or folders that hold them, such as those of trained models.
        names: names of the models; None for the reports' names, or the folders' names if those are not unique.
        data_dir: folder of the raw files; they are read only if ``per_query.parquet`` lacks the image of each query.

    Raises:
        DataError: a file is missing or malformed, or the raw files are not those of the report.
        InvalidOption: the number of names is wrong, or they are not unique.

    Example:
        >>> import tempfile
        >>> load_reports([tempfile.mkdtemp()])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        cxc_eccv.errors.DataError: ...report.json: cannot be read (... Give a report that evaluate --output wrote.
    """
    loaded = []
    for name, file in _files(paths, names).items():
        report, beside = read_report(file), file.with_name(PER_QUERY)
        if not beside.is_file():
            raise DataError(f"{file}: no {PER_QUERY} beside it. {NO_VALUES}")
        values = read_table(beside, "what evaluate --output wrote")
        loaded.append(ScoredReport.of(name, replace(report, per_query=values), data_dir))
    return tuple(loaded)


def read_reports(paths: Sequence[str | Path], names: Sequence[str] | None = None) -> dict[str, Report]:
    """Model's name to its report, without per-query values; arguments as of :func:`load_reports`."""
    return {name: read_report(file) for name, file in _files(paths, names).items()}


def _files(paths: Sequence[str | Path], names: Sequence[str] | None) -> dict[str, Path]:
    files = [find_report(path) for path in map(Path, paths)]
    chosen = list(names) if names else _default_names(files, [Path(path) for path in paths])
    if not all(name.strip() for name in chosen) or not len(files) == len(chosen) == len(set(chosen)):
        raise InvalidOption(f"{len(files)} reports need {len(files)} different names, not {', '.join(chosen)}")
    return dict(zip(chosen, files, strict=True))


def _default_names(files: Sequence[Path], paths: Sequence[Path]) -> list[str]:
    """The reports' names if they are unique, else the names of the folders, else the files."""
    titles = [read_report(file).name for file in files]
    folders = [(path if path.is_dir() else path.parent).absolute().name for path in paths]
    differ = (names for names in (titles, folders) if all(names) and len(set(names)) == len(names))
    return next(differ, [str(file) for file in files])


def _add_images(
    per_query: dict[str, QueryValues], report: Report, name: str, library: Library
) -> dict[str, QueryValues]:
    """Fill in the image behind every query if the table does not name it."""
    directions = {key: key.split("/")[1] for key, values in per_query.items() if values.clusters is None}
    if not directions:
        return per_query
    split = str(report.provenance.get("split"))
    _check_same_files(report, name, library, split)
    values = dict(per_query)
    for key, direction in directions.items():
        if direction not in DIRECTIONS:
            continue
        ids = values[key].query_ids
        known = library.images(split)["image_id"] if direction[0] == "i" else library.captions(split)["caption_id"]
        unknown = ids[~positions_of(ids, np.asarray(known))[1]]
        if unknown.size:
            raise DataError(f"query {unknown[0]} of direction {direction} is not in the {split} split of the data")
        values[key] = replace(values[key], clusters=images_behind(ids, library, split, direction))
    return values


def _check_same_files(report: Report, name: str, library: Library, split: str) -> None:
    """Refuse raw files that differ from those of the report: they say which captions share an image."""
    try:
        library.captions(split)
    except SourceMissing as error:
        raise SourceMissing(
            f"{name}: per_query.parquet has no column cluster, so the raw files must say which captions share an "
            f"image. {error}"
        ) from None
    recorded = report.provenance.get("data", {}).get("files", {})
    used = {file: sha256 for file, sha256 in library.files_used().items() if file in recorded}
    changed = [file for file, sha256 in used.items() if sha256 != recorded[file]]
    if changed or not used:
        what = f"another {changed[0]}, of sha256 {recorded[changed[0]]}" if changed else "other files"
        raise DataError(
            f"{name}: computed from {what} than those in the data folder, so the images of its queries are unknown. "
            "Point --data-dir at the files that the report was computed from."
        )
