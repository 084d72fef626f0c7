"""Reads Parquet tables strictly: with page checksums, a consistent footer, and a limit on the expansion."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cxc_eccv.types.expansion import refuse_expansion
from cxc_eccv.types.parquet_footer import read_footer

LONGEST_REASON = 300
"""Most characters of pyarrow's messages, which may quote long names."""

LISTS = (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)

OFFSET = 4


def read_parquet(path: Path) -> pa.Table:
    """The table of a Parquet file; raises ArrowInvalid if it is damaged."""
    try:
        _refuse_expansion(path)
        table = pq.read_table(path, page_checksum_verification=True)
        table.validate(full=True)
        sorted(table.column_names)  # decodes them
        _refuse_contradictions(table, pq.read_metadata(path))  # after the read, as a bad footer may abort pyarrow here
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise pa.ArrowInvalid(str(error).partition("\n")[0][:LONGEST_REASON]) from None
    return table


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table with a checksum for every page."""
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def _refuse_expansion(path: Path) -> None:
    """Raise ValueError if the footer announces too many values; repeated values are stored once."""
    packed, chunks = path.stat().st_size, read_footer(path)
    fixed = sum(chunk.values * (OFFSET if chunk.width is None else chunk.width) for chunk in chunks)
    refuse_expansion(packed, max(fixed, sum(chunk.unpacked for chunk in chunks)))
    texts = [chunk for chunk in chunks if chunk.width is None]
    try:
        refuse_expansion(packed, fixed + sum(chunk.values * chunk.unpacked for chunk in texts))
    except ValueError:  # the bound is too large; measure the texts by their dictionaries, which hold each text once
        names = sorted({chunk.path for chunk in texts})
        table = pq.ParquetFile(path, read_dictionary=names).read(columns=names)
        refuse_expansion(packed, fixed + sum(_measure(part) for column in table.columns for part in column.chunks))


def _measure(values: pa.Array) -> int:
    if pa.types.is_dictionary(values.type):
        lengths = pc.binary_length(values.dictionary)
        return int(pc.sum(pc.take(lengths, values.indices)).as_py() or 0)
    if pa.types.is_struct(values.type):
        return sum(map(_measure, values.flatten()))
    return _measure(values.flatten()) if isinstance(values, LISTS) else int(values.nbytes)


def _refuse_contradictions(table: pa.Table, footer: pq.FileMetaData) -> None:
    counted, in_lists = 0, Counter[str]()
    for group in map(footer.row_group, range(footer.num_row_groups)):
        counted += group.num_rows
        for place in range(group.num_columns):
            chunk, column = group.column(place), footer.schema.column(place)
            if (chunk.path_in_schema, chunk.physical_type) != (column.path, column.physical_type):
                raise pa.ArrowInvalid(f"column {column.path} has the values of {chunk.path_in_schema}")
            if column.max_repetition_level == 0 and chunk.num_values != group.num_rows:
                raise pa.ArrowInvalid(f"column {column.path} has {chunk.num_values} values in {group.num_rows} rows")
            if column.max_repetition_level == 1:
                in_lists[column.path] += chunk.num_values
    if counted != footer.num_rows:
        raise pa.ArrowInvalid(f"the footer announces {footer.num_rows} rows, but there are {counted}")
    for path, announced in in_lists.items():
        name = path.partition(".")[0]
        if name in table.column_names and announced != _values_in_lists(table[name]):
            raise pa.ArrowInvalid(f"column {path} lacks some of its {announced} values")


def _values_in_lists(column: pa.ChunkedArray) -> int:
    """The number of values in lists; Parquet counts an empty list as one value."""
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    return int(pc.sum(pc.max_element_wise(lengths, 1)).as_py() or 0)
