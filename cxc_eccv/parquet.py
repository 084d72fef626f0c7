"""Reads Parquet tables and NumPy arrays strictly: with checksums, a bound on the size, nothing after the end."""

from __future__ import annotations

import tokenize
import warnings
from collections import Counter
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

ALWAYS = 1 << 30
"""Bytes to which every file may expand: a score matrix of 5,000 images and 25,000 captions in float64."""

LARGEST = 2 << 30
"""Bytes of a text, at most; rankings of 1,000 items for 25,000 queries take 1.5 GB."""

RATIO = 64
"""How many times its size a larger file may expand; real tables, texts and vectors stay below 30."""

LONGEST_REASON = 300
"""Most characters of messages of pyarrow and NumPy, which may quote long names and headers."""

OBJECTS = "holds Python objects (object dtype), which are never unpickled"
PICKLED = f"{OBJECTS}; save a plain number array, for example np.stack(vectors).astype('float32')"

WIDEST = 8
"""Bytes of the widest number; a repeated one takes hardly a byte of the file."""


def refuse_expansion(packed: int, unpacked: int, ratio: int = RATIO) -> None:
    """Raise ValueError if ``packed`` bytes expand to more than :data:`ALWAYS` and to more than ``ratio`` times."""
    most = max(ALWAYS, ratio * packed)
    if unpacked > most:
        raise ValueError(f"{packed:,} bytes that expand to {unpacked:,}, expected at most {most:,}")


def refuse_size(path: Path) -> None:
    """Raise ValueError if a file is too large to be read into memory as a whole, as texts are."""
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(f"{size:,} bytes, expected at most {LARGEST:,}")


def read_npy(stream: IO[bytes]) -> NDArray[Any]:
    """The array of an npy stream, which must end with it; raises ValueError if it is damaged."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of a header that only Python 2 could have written
            warnings.simplefilter("error", RuntimeWarning)  # of a shape that does not fit int64
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except ValueError as error:
        raise ValueError(PICKLED if "allow_pickle" in str(error) else str(error)[:LONGEST_REASON]) from None
    except (
        UserWarning,
        RuntimeWarning,
        TypeError,
        SyntaxError,
        tokenize.TokenError,
        OverflowError,
        MemoryError,
    ) as error:
        raise ValueError(f"a header that cannot be parsed ({error})") from None
    if stream.read(1):  # reading to the end also makes a zip archive compare its checksum
        raise ValueError("bytes after the end of the array")
    return array


def read_parquet(path: Path) -> pa.Table:
    """The table of a Parquet file; raises ArrowInvalid if it is damaged."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            footer = file.metadata
            stored = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
            refuse_expansion(path.stat().st_size, max(stored, WIDEST * footer.num_rows * footer.num_columns))
            table = file.read()
            table.validate(full=True)
            _refuse_contradictions(table, footer)  # after the read: a bad footer may abort pyarrow here
    except (pa.ArrowException, OSError, ValueError, LookupError, MemoryError) as error:
        raise pa.ArrowInvalid(str(error).partition("\n")[0][:LONGEST_REASON]) from None
    return table


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table with a checksum for every page."""
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def _refuse_contradictions(table: pa.Table, footer: pq.FileMetaData) -> None:
    """Raise ArrowInvalid if the footer, which has no checksum, disagrees with itself or with the table."""
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise pa.ArrowInvalid(f"column {twice[0]} is there twice")
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for place in range(group.num_columns):
            stored, column = group.column(place).path_in_schema, footer.schema.column(place).path
            if stored != column:
                raise pa.ArrowInvalid(f"column {column} has the values of {stored}")
    if footer.num_rows != table.num_rows:
        raise pa.ArrowInvalid(f"the footer announces {footer.num_rows} rows, but there are {table.num_rows}")
