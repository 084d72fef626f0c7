"""EmbeddingsRun: the image and caption vectors of one model, in one space."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.run import SIDES, sides_of
from cxc_eccv.types import Embeddings, IntArray

__all__ = ["SIMILARITIES", "EmbeddingsRun"]

SIMILARITIES = ("cosine", "dot")


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingsRun:
    """What a model says about images, captions, or both.

    Attributes:
        images: (N, D) image vectors, or None for a text-only model.
        captions: (M, D) caption vectors, or None for an image-only model.
        path: the file they were read from, or None.
        sha256: hex digest of that file, or None.
        similarity: ``cosine`` or ``dot``, which the vectors are meant for; None where nothing says it.

    Raises:
        MalformedRun: neither side is given, the two sides differ in D, or there is no such similarity.

    Example:
        >>> import numpy as np
        >>> run = EmbeddingsRun(None, Embeddings([7, 8], np.eye(2)))
        >>> run.images is None, run.captions.vectors.shape
        (True, (2, 2))
    """

    kind: ClassVar[str] = "embeddings"

    images: Embeddings | None
    captions: Embeddings | None
    path: Path | None = None
    sha256: str | None = None
    similarity: str | None = None

    def __post_init__(self) -> None:
        if self.similarity not in (None, *SIMILARITIES):
            raise MalformedRun(
                f"{self.path or 'run'}: its similarity is {self.similarity!r:.80}; save {' or '.join(SIMILARITIES)}, "
                "or none"
            )
        if self.images is None and self.captions is None:
            raise MalformedRun("a run needs image embeddings, caption embeddings, or both; this one has neither")
        if self.images is not None and self.captions is not None:
            widths = self.images.vectors.shape[1], self.captions.vectors.shape[1]
            if widths[0] != widths[1]:
                raise MalformedRun(
                    f"{self.path or 'run'}: image_embeddings have {widths[0]} dimensions, caption_embeddings have "
                    f"{widths[1]}. Both must come from the shared space, after the model's projection layers."
                )

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None where it can.

        Example:
            >>> text_only = EmbeddingsRun(None, Embeddings([1], [[1.0]]))
            >>> text_only.why_not("i2t"), text_only.why_not("t2t")
            ('the run has no images', None)
        """
        lacking = next((side for side in sides_of(direction) if getattr(self, side) is None), None)
        return None if lacking is None else f"the run has no {lacking}"

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``; empty where there are none."""
        embeddings: Embeddings | None = getattr(self, side)
        return np.empty(0, dtype=np.int64) if embeddings is None else embeddings.ids

    def facts(self) -> dict[str, Any]:
        """Kind, file and hash; number and width of the vectors per side."""
        facts: dict[str, Any] = {"kind": self.kind, "file": self.path.name if self.path else None}
        facts["sha256"] = self.sha256
        for side in SIDES:
            embeddings: Embeddings | None = getattr(self, side)
            if embeddings is not None:
                count, dimensions = embeddings.vectors.shape
                facts[side] = {"count": count, "dimensions": dimensions}
        return facts
