"""The record beside an encoded file: its model and data, and which items were skipped or cut."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cxc_eccv.runs.checks import hash_file
from cxc_eccv.types.strict_json import decode_json
from cxc_eccv.writing import replaced_file


def record_path(path: Path) -> Path:
    """The path of the record of an encoded file."""
    return path.with_name(f"{path.stem}.encoding.json")


def write_record(path: Path, facts: Mapping[str, Any]) -> None:
    """Write facts about an encoded file, with the hash of the file."""
    text = json.dumps({**facts, "sha256": hash_file(path)}, indent=2, ensure_ascii=False)
    with replaced_file(record_path(path)) as part:
        part.write_text(text + "\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, Any] | None:
    """The record of an encoded file; None if there is none, or if its hash is that of another file."""
    if not (path.is_file() and record_path(path).is_file()):  # reading a pipe would block
        return None
    try:
        content = decode_json(record_path(path).read_text(encoding="utf-8"))
        matches = content["sha256"] == hash_file(path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content if matches else None
