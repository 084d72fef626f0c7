"""Reads and writes Parquet tables with a checksum for every page."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(path: Path) -> pa.Table:
    """The table of a Parquet file; raises ArrowException if it is damaged."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
            table.validate(full=True)
    except OSError as error:  # pyarrow's error of a checksum
        raise pa.ArrowInvalid(str(error)) from None
    return table


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table with a checksum for every page."""
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)
