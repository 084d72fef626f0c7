"""The folder of a report: report.json and the tables behind it, and the pages made from them."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cxc_eccv.errors import DataError, MalformedSource
from cxc_eccv.evaluation import report_from_json, report_to_json
from cxc_eccv.evaluation.report_files import PER_QUERY_SCHEMA
from cxc_eccv.report.examples import LEAST_SCHEMA, no_examples, shown_files, thumbnails, with_every_source
from cxc_eccv.report.page import page_of
from cxc_eccv.report.pages import render_html, render_markdown
from cxc_eccv.runs.parquet import read_parquet
from cxc_eccv.types import Report
from cxc_eccv.writing import replaced_folder

__all__ = ["FILES", "rebuild_pages", "write_folder"]

REPORT, PER_QUERY, EXAMPLES = "report.json", "per_query.parquet", "examples.parquet"
MARKDOWN, HTML = "report.md", "report.html"
FILES = (REPORT, PER_QUERY, EXAMPLES, MARKDOWN, HTML)
"""What a report's folder holds; whatever else stands in it is the user's."""

DIGEST = b"report"
"""Metadata of the tables: which report.json they were written with."""


def write_folder(folder: Path, report: Report, examples: pa.Table | None = None) -> list[Path]:
    """Write ``report.json``, ``per_query.parquet``, ``examples.parquet``, ``report.md`` and ``report.html``.

    Equal inputs give equal bytes. All five appear at once, in place of those of an earlier report; other files of the
    folder are kept. The pages are without images, which :func:`rebuild_pages` adds.

    Args:
        folder: made where it is not there.
        report: what evaluation gave.
        examples: of :func:`cxc_eccv.report.examples.examples.collect_examples`, or None.

    Returns:
        The files.

    Raises:
        InvalidOption: ``folder`` is a file, or the folder this process works in, which cannot be swapped.
        WriteFailed: ``folder`` cannot be written; an earlier report in it is whole.

    Example:
        >>> import tempfile
        >>> report = Report((), {"cxc/i2t": "the run has no images"}, {"split": "test"})
        >>> [path.name for path in write_folder(Path(tempfile.mkdtemp()), report)]
        ['report.json', 'per_query.parquet', 'examples.parquet', 'report.md', 'report.html']
    """
    text = report_to_json(report)
    values = PER_QUERY_SCHEMA.empty_table() if report.per_query is None else report.per_query
    shown = no_examples("the report was made without its run") if examples is None else examples
    with replaced_folder(folder, FILES) as new:
        _write(new / REPORT, text)
        for name, table in ((PER_QUERY, values), (EXAMPLES, shown)):
            _write_table(new / name, table, _digest(text))
        _write_pages(new, report, shown)
    return [folder / name for name in FILES]


def rebuild_pages(folder: Path, images: str | Path | None = None) -> list[Path]:
    """Write ``report.md`` and ``report.html`` anew from the other files of the folder.

    Args:
        folder: what :func:`write_folder` wrote.
        images: folder with the images, for thumbnails in the HTML page.

    Returns:
        The two files.

    Raises:
        DataError: a file is missing or malformed, or is of another report.
        InvalidOption: no such folder of images, or it holds none of those shown.
        WriteFailed: the folder cannot be written; it is as it was.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> before = write_folder(folder, Report((), {}, {"split": "test"}))[-1].read_bytes()
        >>> rebuild_pages(folder)[-1].read_bytes() == before
        True
    """
    if not folder.parent.is_dir():
        _refuse_incomplete(folder)
    # What a killed process left is put right before the folder is read.
    with replaced_folder(folder, FILES) as new:
        _refuse_incomplete(folder)
        report, examples = _read_folder(folder)
        for name in (REPORT, PER_QUERY, EXAMPLES):
            shutil.copy2(folder / name, new / name)
        _write_pages(new, report, examples, images)
    return [folder / MARKDOWN, folder / HTML]


def _read_folder(folder: Path) -> tuple[Report, pa.Table]:
    text = (folder / REPORT).read_text(encoding="utf-8")
    try:
        bare, digest = report_from_json(text), _digest(text)
    except DataError as error:
        raise DataError(f"{folder / REPORT}: {error}") from None
    values = _read_table(folder / PER_QUERY, PER_QUERY_SCHEMA, digest)
    examples = with_every_source(_read_table(folder / EXAMPLES, LEAST_SCHEMA, digest))
    return Report(bare.results, bare.skipped, bare.provenance, values if values.num_rows else None), examples


def _write_pages(folder: Path, report: Report, examples: pa.Table, images: str | Path | None = None) -> None:
    page = page_of(report, examples)
    files, uris = shown_files(page.cards), None
    if images is not None:
        uris = thumbnails(images, files)
        absent = [file for file in files if file not in uris]
        if absent:
            warnings.warn(
                f"{len(absent)} of {len(files)} images shown are not below {images}, the first: {absent[0]}; they "
                "stand as empty frames",
                stacklevel=3,
            )
    _write(folder / MARKDOWN, render_markdown(page))
    _write(folder / HTML, render_html(page, uris))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _write_table(path: Path, table: pa.Table, digest: bytes) -> None:
    metadata = {**(table.schema.metadata or {}), DIGEST: digest}
    pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd", write_page_checksum=True)


def _digest(text: str) -> bytes:
    """Hex sha256 of the content of a report.json, however it is laid out."""
    content = json.dumps(json.loads(text), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest().encode()


def _refuse_incomplete(folder: Path) -> None:
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder. Name one that cxc-eccv evaluate --output wrote.")
    missing = [name for name in (REPORT, PER_QUERY, EXAMPLES) if not (folder / name).is_file()]
    if missing:
        raise DataError(
            f"{folder} lacks {' and '.join(missing)}. The pages are made from {REPORT}, {PER_QUERY} and {EXAMPLES}, "
            "which cxc-eccv evaluate --output writes; run it again."
        )


def _read_table(path: Path, schema: pa.Schema, digest: bytes) -> pa.Table:
    try:
        table = read_parquet(path)
    except pa.ArrowInvalid as error:
        raise MalformedSource(path, "", f"no readable Parquet file ({error})", "what evaluate --output wrote") from None
    absent = [name for name in schema.names if name not in table.column_names]
    if absent:
        raise MalformedSource(path, "", f"the columns {', '.join(table.column_names)}", f"{absent[0]} among them")
    if (table.schema.metadata or {}).get(DIGEST) != digest:
        raise DataError(
            f"{path} was not written with the {REPORT} beside it. Evaluate the model again into one folder."
        )
    return table
