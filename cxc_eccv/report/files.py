"""Names and schemas of the files of a report's folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa

REPORT = "report.json"
PER_QUERY = "per_query.parquet"
EXAMPLES = "examples.parquet"
REPORT_FOLDER = "report"
"""Folder of a report within the folder of a trained model."""

NAME = pa.dictionary(pa.int32(), pa.string())
PER_QUERY_SCHEMA = pa.schema(
    [
        ("query_id", pa.int64()),
        ("task", NAME),
        ("direction", NAME),
        ("metric", NAME),
        ("value", pa.float64()),
        ("best_rank", pa.int64()),
        ("cluster", pa.int64()),
        ("fold", pa.int64()),
    ]
)

DIGEST = b"report"
"""Key in the metadata of the tables: the digest of the report.json that they were written with."""


def digest_of(file: Path) -> bytes:
    """Hexadecimal sha256 of the content of a report.json, whatever its whitespace."""
    content = json.dumps(json.loads(file.read_text(encoding="utf-8")), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest().encode()
