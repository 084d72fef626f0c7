"""Run: what evaluation asks of a model's results, whichever form they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from cxc_eccv.types import IntArray


@runtime_checkable
class Run(Protocol):
    """Embeddings, a score matrix, or rankings, as ``kind`` says."""

    kind: ClassVar[str]

    @property
    def path(self) -> Path | None:
        """The file it was read from, or None."""

    @property
    def model(self) -> str | None:
        """What the model is called, where the file says it."""

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None where it can."""

    def ids(self, side: str) -> IntArray:
        """(N,) distinct ids of the ``images`` or ``captions`` that it names; empty where it names none."""

    def facts(self) -> dict[str, Any]:
        """What a report records of it: kind, file, hash, model where it is known, and an entry of sizes per side."""
