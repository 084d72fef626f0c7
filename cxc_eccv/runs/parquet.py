"""Parquet tables, read so that a damaged file is refused: page checksums, and a footer that agrees with itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["read_parquet"]


def read_parquet(path: Path) -> pa.Table:
    """The table of a Parquet file.

    Checksums cover the pages alone, and only where the writer made them (``write_page_checksum=True``). The footer has
    none, but says names, types and lengths twice, which must agree.

    Raises:
        ArrowInvalid: not Parquet, cut short, or damaged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "ids.parquet"
        ...     pq.write_table(pa.table({"ids": [3, 4]}), path, write_page_checksum=True)
        ...     read_parquet(path)["ids"].to_pylist()
        [3, 4]
    """
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        table.validate(full=True)
        sorted(table.column_names)  # decodes them
        _refuse_contradictions(pq.read_metadata(path))  # after the read: of a bad footer pyarrow may abort here
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        raise pa.ArrowInvalid(str(error).partition("\n")[0]) from None
    return table


def _refuse_contradictions(footer: pq.FileMetaData) -> None:
    counted = 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        counted += group.num_rows
        for place in range(group.num_columns):
            chunk, column = group.column(place), footer.schema.column(place)
            if (chunk.path_in_schema, chunk.physical_type) != (column.path, column.physical_type):
                raise pa.ArrowInvalid(f"column {column.path} is {chunk.path_in_schema} where its values are")
            if column.max_repetition_level == 0 and chunk.num_values != group.num_rows:
                raise pa.ArrowInvalid(f"column {column.path} has {chunk.num_values} values in {group.num_rows} rows")
    if counted != footer.num_rows:
        raise pa.ArrowInvalid(f"{footer.num_rows} rows are announced, and {counted} are there")
