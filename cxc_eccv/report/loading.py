"""Reads the folder of a report, and rebuilds its pages from its other files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, refuse_long_name
from cxc_eccv.presentation.thumbnails import page_images
from cxc_eccv.report.example_table import EXAMPLES_SCHEMA
from cxc_eccv.report.files import (
    DIGEST,
    EXAMPLES,
    PER_QUERY,
    PER_QUERY_SCHEMA,
    REPORT,
    REPORT_FOLDER,
    digest_of,
)
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.query_cards import find_shown_files
from cxc_eccv.report.report import Report
from cxc_eccv.report.saving import FILES, HTML, MARKDOWN, write_pages
from cxc_eccv.sources.reading import read_table
from cxc_eccv.writing import replaced_folder

RUNS = (".npz", ".safetensors", ".trec", ".run")
"""Endings of files that hold a model's results, never a report."""

NAME_FOLDER = "Name a folder that cxc-eccv evaluate --output wrote"


def read_report(path: Path) -> Report:
    """The report of a ``report.json``, without per-query values; raises DataError."""
    if path.suffix.lower() in RUNS:
        raise DataError(
            f"{path} is a file of a model's embeddings, scores or rankings, not a report. Score it first, with "
            f"cxc-eccv evaluate {path} --output DIR, then name DIR."
        )
    if path.is_file() and path.suffix.lower() != ".json":
        raise DataError(f"{path} is not a {REPORT}. {NAME_FOLDER}.")
    try:
        return Report.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no {path}. {NAME_FOLDER}.") from None
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error}). {NAME_FOLDER}.") from None
    except DataError as error:
        raise DataError(f"{path} is {error}. {NAME_FOLDER}.") from None


def find_report(path: Path) -> Path:
    """The ``report.json`` at a path: the file itself, or that in a folder, or in the folder of a trained model."""
    refuse_long_name(path)
    places = [path / REPORT, path / REPORT_FOLDER / REPORT] if path.is_dir() else [path]
    files = [place for place in places if place.is_file()]
    if len(files) > 1:
        raise InvalidOption(f"{path} holds both {REPORT} and {REPORT_FOLDER}/{REPORT}; name one of the two files")
    return (files or places)[0]


def read_own_table(file: Path, name: str, schema: pa.Schema) -> pa.Table:
    """The table beside a report.json with at least the columns of the schema; refuse one that belongs to another."""
    path = file.with_name(name)
    table = read_table(path, "what evaluate --output wrote")
    for column in schema:
        if column.name not in table.column_names or table.schema.field(column.name).type != column.type:
            raise MalformedSource(path, f"column {column.name}", "none, or another type", f"one of {column.type}")
    if (table.schema.metadata or {}).get(DIGEST) != digest_of(file):
        raise DataError(
            f"{path} does not belong to the {file.name} beside it. Evaluate the model again into one folder."
        )
    return table


def load_report(path: str | Path) -> Report:
    """Load a report that ``Report.save`` or ``cxc-eccv evaluate --output`` wrote, with its tables.

    Args:
        path: the folder, that of a trained model with a report, or a report.json; without the tables beside it, the
            report has no values of single queries.

    Raises:
        DataError: there is no such report, or a table is damaged or was not written with this report.json.
        InvalidOption: the folder holds two reports.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.types.provenance import Provenance
        >>> folder = tempfile.mkdtemp()
        >>> written = Report((), {"cxc": "no images"}, Provenance(split="test")).save(folder)
        >>> load_report(folder)
        <Report of a run: 0 results of 0 tasks, test split>
    """
    file = find_report(Path(path))
    report = read_report(file)
    if file.with_name(PER_QUERY).is_file():
        values = read_own_table(file, PER_QUERY, PER_QUERY_SCHEMA)
        report = replace(report, per_query=values if values.num_rows else None)
    if file.with_name(EXAMPLES).is_file():
        report = replace(report, examples=read_own_table(file, EXAMPLES, EXAMPLES_SCHEMA))
    return report


def rebuild_pages(folder: Path, images: str | Path | None = None) -> list[Path]:
    """Rebuild ``report.md`` and ``report.html`` from the other files of the folder, or beside a ``report.json``."""
    file = find_report(folder)
    report = load_report(file)
    folder = file.parent
    _refuse_incomplete(folder)
    with replaced_folder(folder, FILES) as new:
        page = Page.of(report)
        for name in (REPORT, PER_QUERY, EXAMPLES):
            shutil.copy2(folder / name, new / name)
        write_pages(new, page, page_images(images, find_shown_files(page.cards)))
    return [folder / MARKDOWN, folder / HTML]


def _refuse_incomplete(folder: Path) -> None:
    missing = [name for name in (REPORT, PER_QUERY, EXAMPLES) if not (folder / name).is_file()]
    if missing:
        raise DataError(
            f"{folder} lacks {' and '.join(missing)}. The pages are made from {REPORT}, {PER_QUERY} and {EXAMPLES}, "
            "which cxc-eccv evaluate --output writes; run it again."
        )
