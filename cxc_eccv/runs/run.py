"""Run: the protocol that evaluation uses for embeddings, scores and rankings; and the record beside a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from cxc_eccv.runs.checks import MODEL, hash_file
from cxc_eccv.types import IntArray, sides_of
from cxc_eccv.types.strict_json import decode_json
from cxc_eccv.writing import replaced_file


@runtime_checkable
class Run(Protocol):
    """A model's results: embeddings, a score matrix, or rankings, depending on ``kind``."""

    kind: ClassVar[str]

    @property
    def path(self) -> Path | None:
        """The file it was read from, or None."""

    @property
    def model(self) -> str | None:
        """The name of the model, or None."""

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None."""

    def ids(self, side: str) -> IntArray:
        """(N,) distinct ids of the ``images`` or ``captions``, possibly none."""

    def facts(self) -> dict[str, Any]:
        """Facts for a report: kind, file, hash, name of the model, and sizes per side."""


class VectorsOfSides:
    """What runs of vectors share: ``images`` and ``captions`` with ids, each None if the run has none."""

    __slots__ = ()

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None."""
        lacking = next((side for side in sides_of(direction) if getattr(self, side) is None), None)
        return None if lacking is None else f"the run has no {lacking}"

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``, possibly none."""
        vectors = getattr(self, side)
        return np.empty(0, dtype=np.int64) if vectors is None else np.asarray(vectors.ids)


def facts_of_file(run: Run) -> dict[str, Any]:
    """The first facts of a run of one file: kind, file, hash and model."""
    facts = {"kind": run.kind, "file": run.path.name if run.path else None, "sha256": getattr(run, "sha256", None)}
    return facts if run.model is None else {**facts, MODEL: run.model}


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
