"""``--unjudged``: a policy by name, or a file of predicted entailment labels."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from cxc_eccv.errors import DataError

__all__ = ["policy"]

SUFFIXES = (".parquet", ".csv", ".jsonl")


def policy(value: str) -> str | pa.Table:
    """The policy's name, or the table in the file.

    Args:
        value: a name, or the path of a ``.parquet``, ``.csv`` or ``.jsonl`` file with ``image_id``, ``caption_id`` and
            ``label``.

    Raises:
        DataError: the file is absent or unreadable.

    Example:
        >>> policy("leave_out")
        'leave_out'
    """
    path = Path(value)
    if path.suffix not in SUFFIXES:
        return value
    try:
        return _table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: no readable table of predicted labels: {error}") from None


def _table(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        from cxc_eccv.runs.parquet import read_parquet

        return read_parquet(path)
    if path.suffix == ".csv":
        from pyarrow import csv

        return csv.read_csv(path)
    from pyarrow import json

    return json.read_json(path)
