"""Run: the protocol that evaluation uses for embeddings, scores and rankings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from cxc_eccv.types import IntArray


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
