"""A model's file where the folder of its report was named instead."""

from __future__ import annotations

import json
from pathlib import Path

from cxc_eccv.errors import MalformedRun, refuse_long_name
from cxc_eccv.types.model_options import EMBEDDING_SUFFIXES

REPORT_FILE = "report.json"


def find_files(path: str | Path) -> list[Path]:
    """The model's file in the folder of its report; else the path itself."""
    path = Path(path)
    refuse_long_name(path)
    folder = path.parent if path.name == REPORT_FILE else path
    if not (folder / REPORT_FILE).is_file():
        return [path]
    files = [file for file in folder.iterdir() if file.suffix in EMBEDDING_SUFFIXES]
    if len(files) == 1:
        return files
    raise MalformedRun(
        f"{path} is a report, not a model's file. Name the file of the model's embeddings, scores or rankings"
        f"{_read_origin(folder / REPORT_FILE)}"
    )


def _read_origin(report: Path) -> str:
    """The command that wrote a report, after a colon; empty where the report does not say."""
    try:
        command = json.loads(report.read_text(encoding="utf-8"))["provenance"]["command"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return f"; the report was made by: {command}"
