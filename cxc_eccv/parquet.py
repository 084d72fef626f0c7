"""Parquet tables that tell when they are damaged: page checksums, and a footer that must agree with itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["read_parquet", "write_parquet"]


def read_parquet(path: Path) -> pa.Table:
    """The table of a Parquet file.

    Checksums cover the pages alone, and only where the writer made them, as :func:`write_parquet` does. The footer has
    none, but says names, types and lengths twice, which must agree. A file that does not hold up raises ArrowInvalid.
    """
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        table.validate(full=True)
        sorted(table.column_names)  # decodes them
        _refuse_contradictions(table, pq.read_metadata(path))  # after the read: of a bad footer pyarrow may abort here
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        raise pa.ArrowInvalid(str(error).partition("\n")[0]) from None
    return table


def write_parquet(table: pa.Table, path: Path, compression: str = "zstd") -> None:
    """Write a table with a checksum for every page."""
    pq.write_table(table, path, compression=compression, write_page_checksum=True)


def _refuse_contradictions(table: pa.Table, footer: pq.FileMetaData) -> None:
    counted, in_lists = 0, Counter[str]()
    for group in map(footer.row_group, range(footer.num_row_groups)):
        counted += group.num_rows
        for place in range(group.num_columns):
            chunk, column = group.column(place), footer.schema.column(place)
            if (chunk.path_in_schema, chunk.physical_type) != (column.path, column.physical_type):
                raise pa.ArrowInvalid(f"column {column.path} is {chunk.path_in_schema} where its values are")
            if column.max_repetition_level == 0 and chunk.num_values != group.num_rows:
                raise pa.ArrowInvalid(f"column {column.path} has {chunk.num_values} values in {group.num_rows} rows")
            if column.max_repetition_level == 1:
                in_lists[column.path] += chunk.num_values
    if counted != footer.num_rows:
        raise pa.ArrowInvalid(f"{footer.num_rows} rows are announced, and {counted} are there")
    for path, announced in in_lists.items():
        name = path.partition(".")[0]
        if name in table.column_names and announced != _values_in_lists(table[name]):
            raise pa.ArrowInvalid(f"column {path} lacks some of {announced} values")


def _values_in_lists(column: pa.ChunkedArray) -> int:
    """As Parquet counts them: an empty list counts as one."""
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    return int(pc.sum(pc.max_element_wise(lengths, 1)).as_py() or 0)
