"""What happened while encoding, said: as counted warnings, and in a record beside the output."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cxc_eccv.encoding.shards import Notes

__all__ = ["record_path", "remarks", "warn_of", "write_record"]

NAMED = 20
"""Images that a warning names; the record names all."""


def remarks(notes: Notes) -> list[str]:
    """A sentence for everything that was cut, converted or left out.

    Example:
        >>> remarks(Notes(truncated=2, converted={"CMYK": 1, "L": 9}))
        ["2 captions are longer than the model's context and were cut", \
'10 images were not RGB and were converted: CMYK 1, L 9']
    """
    found = []
    if notes.truncated:
        found.append(f"{notes.truncated} captions are longer than the model's context and were cut")
    if notes.converted:
        modes = ", ".join(f"{mode} {count}" for mode, count in sorted(notes.converted.items()))
        found.append(f"{sum(notes.converted.values())} images were not RGB and were converted: {modes}")
    if notes.skipped:
        named = "; ".join(f"{number}: {why}" for number, why in list(notes.skipped.items())[:NAMED])
        more = f"; and {len(notes.skipped) - NAMED} more" if len(notes.skipped) > NAMED else ""
        found.append(f"{len(notes.skipped)} images were left out and have no vector: {named}{more}")
    return found


def warn_of(notes: Notes, stacklevel: int = 3) -> None:
    """One warning for each of the :func:`remarks`."""
    for remark in remarks(notes):
        warnings.warn(remark, stacklevel=stacklevel)


def record_path(output: Path) -> Path:
    """Where the record of an output is.

    Example:
        >>> record_path(Path("runs/clip.npz")).name
        'clip.encoding.json'
    """
    return output.with_name(f"{output.stem}.encoding.json")


def write_record(output: Path, notes: Notes, **facts: Any) -> None:  # noqa: ANN401 - anything JSON can hold
    """Write facts and notes beside an output.

    Args:
        output: the file of embeddings, scores or rankings.
        notes: what happened on the way.
        **facts: model and settings.
    """
    content = {**facts, **asdict(notes)}
    record_path(output).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
