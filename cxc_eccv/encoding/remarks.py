"""What happened while encoding, said: as counted warnings, and in a record beside the output."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cxc_eccv.encoding.output_path import parts_folder
from cxc_eccv.encoding.shards import Notes
from cxc_eccv.writing import replaced_file

__all__ = ["record_path", "remarks", "warn_of", "write_whole"]

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


def write_whole(output: Path, write: Callable[[Path], None], notes: Notes, **facts: Any) -> None:  # noqa: ANN401
    """Write an output and a record of facts and notes beside it, and remove the shards that it was made of.

    Args:
        output: the file of embeddings, scores or rankings.
        write: writes it, as a whole or not at all.
        notes: what happened on the way.
        **facts: model and settings; anything JSON can hold.

    Raises:
        WriteFailed: one of the files cannot be written.
    """
    # A process that is killed here leaves an output without a record, and none with that of another model.
    record_path(output).unlink(missing_ok=True)
    write(output)
    text = json.dumps({**facts, **asdict(notes)}, indent=2, ensure_ascii=False)
    with replaced_file(record_path(output)) as part:
        part.write_text(text + "\n", encoding="utf-8")
    shutil.rmtree(parts_folder(output))
