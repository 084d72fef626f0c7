"""A report with its per-query values: what two models are compared by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from cxc_eccv.comparison.query_values import QueryValues, query_values, read_query_values
from cxc_eccv.errors import DataError, InvalidOption, SourceMissing
from cxc_eccv.evaluation import report_from_json
from cxc_eccv.evaluation.clusters import images_behind
from cxc_eccv.sources.library import Library
from cxc_eccv.types import DIRECTIONS, IntArray, Report, positions_of

__all__ = ["ScoredReport", "load_reports", "read_reports"]

REPORT, PER_QUERY = "report.json", "per_query.parquet"
NO_VALUES = (
    "Without the values of single queries a difference has neither interval nor p-value. Run cxc-eccv evaluate again "
    "with --output, which writes them."
)


@dataclass(frozen=True, slots=True, eq=False)
class ScoredReport:
    """One model's report and the values of its queries.

    Attributes:
        name: of the model, as shown.
        report: what evaluate gave.
        per_query: ``task/direction/metric`` to the values of its queries, each with its image.
    """

    name: str
    report: Report
    per_query: Mapping[str, QueryValues] = field(repr=False)

    @classmethod
    def of(cls, name: str, report: Report, data_dir: str | Path | Library | None = None) -> ScoredReport:
        """A report that holds the values of its queries.

        Args:
            name: of the model, as shown.
            report: with ``per_query``.
            data_dir: the raw files, read only where ``per_query`` has no ``cluster`` column, to know which image is
                behind a caption.

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
        return cls(name, report, _with_images(values, report, name, library))


def load_reports(
    paths: Sequence[str | Path], names: Sequence[str] | None = None, data_dir: str | Path | None = None
) -> tuple[ScoredReport, ...]:
    """Reports and the per-query values beside them.

    Args:
        paths: ``report.json`` files, or the folders that hold them.
        names: of the models; None for the folders' names.
        data_dir: the raw files, read only where ``per_query.parquet`` does not say which image is behind a caption.

    Raises:
        DataError: a file is missing or malformed, or the raw files are not those of the report.
        InvalidOption: names that are not one per report, or not unique.

    Example:
        >>> import tempfile
        >>> load_reports([tempfile.mkdtemp()])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        cxc_eccv.errors.DataError: ...report.json: cannot be read (... Give what evaluate --output wrote.
    """
    return tuple(_load(name, file, data_dir) for name, file in _files(paths, names).items())


def read_reports(paths: Sequence[str | Path], names: Sequence[str] | None = None) -> dict[str, Report]:
    """Model's name to its report, without per-query values.

    Args:
        paths: ``report.json`` files, or the folders that hold them.
        names: of the models; None for the folders' names.

    Raises:
        DataError: no such file, or not a report.
        InvalidOption: names that are not one per report, or not unique.
    """
    return {name: _report(file) for name, file in _files(paths, names).items()}


def _files(paths: Sequence[str | Path], names: Sequence[str] | None) -> dict[str, Path]:
    files = [path / REPORT if path.is_dir() else path for path in map(Path, paths)]
    folders = [file.absolute().parent.name for file in files]
    chosen = list(names) if names else folders if len(set(folders)) == len(folders) else [str(file) for file in files]
    if len(chosen) != len(files) or len(set(chosen)) != len(chosen):
        raise InvalidOption(f"{len(files)} reports need as many different names, not {', '.join(chosen)}")
    return dict(zip(chosen, files, strict=True))


def _report(path: Path) -> Report:
    try:
        return report_from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Give what evaluate --output wrote.") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _load(name: str, file: Path, data_dir: str | Path | None) -> ScoredReport:
    report, beside = _report(file), file.with_name(PER_QUERY)
    if not beside.is_file():
        raise DataError(f"{file}: no {PER_QUERY} beside it. {NO_VALUES}")
    return ScoredReport.of(name, replace(report, per_query=read_query_values(beside)), data_dir)


def _with_images(
    per_query: dict[str, QueryValues], report: Report, name: str, library: Library
) -> dict[str, QueryValues]:
    """Fill in the image behind every query where the table does not name it."""
    directions = {key: key.split("/")[1] for key, one in per_query.items() if one.clusters is None}
    if not directions:
        return per_query
    split = str(report.provenance.get("split"))
    _check_same_files(report, name, library, split)
    return per_query | {
        key: replace(per_query[key], clusters=_images(per_query[key].query_ids, library, split, direction))
        for key, direction in directions.items()
        if direction in DIRECTIONS
    }


def _check_same_files(report: Report, name: str, library: Library, split: str) -> None:
    """The raw files that say which captions share an image must be those of the report."""
    try:
        library.captions(split)
    except SourceMissing as error:
        raise SourceMissing(
            f"{name}: its values name no images (no cluster column), so the raw files must say which captions share "
            f"one. {error}"
        ) from None
    recorded = report.provenance.get("data", {}).get("files", {})
    found = {file: sha256 for file, sha256 in library.files_used().items() if file in recorded}
    changed = [file for file, sha256 in found.items() if sha256 != recorded[file]]
    if changed or not found:
        what = f"another {changed[0]}, of sha256 {recorded[changed[0]]}" if changed else "other files"
        raise DataError(
            f"{name}: computed from {what} than the data at hand, which would say which captions share an image. "
            "Point --data-dir at the files that the report was computed from."
        )


def _images(query_ids: IntArray, library: Library, split: str, direction: str) -> IntArray:
    known = library.images(split)["image_id"] if direction.startswith("i") else library.captions(split)["caption_id"]
    unknown = query_ids[~positions_of(query_ids, np.asarray(known))[1]]
    if unknown.size:
        raise DataError(f"query {unknown[0]} of direction {direction} is not in the {split} split at hand")
    return images_behind(query_ids, library, split, direction)
