"""Run: the protocol that evaluation uses for embeddings, scores and rankings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from cxc_eccv.runs.checks import MODEL
from cxc_eccv.types import IntArray, sides_of


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
