"""``--captions``: a file of captions in place of the split's."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from cxc_eccv.errors import DataError

__all__ = ["read_captions"]


def read_captions(path: Path) -> pa.Table:
    r"""The table in a file.

    Args:
        path: a ``.parquet``, ``.csv`` or ``.jsonl`` file with ``caption_id`` and ``text``.

    Raises:
        DataError: another suffix, or the file is absent or unreadable.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "captions.csv"
        >>> _ = path.write_text('caption_id,text\n770337,"A man, riding a moped."\n')
        >>> read_captions(path)["text"].to_pylist()
        ['A man, riding a moped.']
    """
    try:
        return _table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: no readable table of captions: {error}") from None


def _table(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        from cxc_eccv.runs.parquet import read_parquet

        return read_parquet(path)
    if path.suffix == ".csv":
        from pyarrow import csv

        return csv.read_csv(path)
    if path.suffix == ".jsonl":
        from pyarrow import json

        return json.read_json(path)
    raise DataError(f"{path}: captions are read from .parquet, .csv or .jsonl, with caption_id and text")
