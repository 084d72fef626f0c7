"""ScoresRun: a model's scores of every image with every caption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.run import MODEL, check_ids, check_name, facts_of_file, hash_file, one_text, to_array
from cxc_eccv.types import IntArray

ARRAYS = ("image_ids", "caption_ids", "scores")
TYPES = (np.float16, np.float32, np.float64)
ROWS_AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class ScoresRun:
    """A score for every image with every caption, for example from a cross-encoder.

    Scores are compared in the precision they have.

    Attributes:
        image_ids: (N,) unique ids.
        caption_ids: (M,) unique ids.
        scores: (N, M) float16, float32 or float64, finite; higher means more similar.
        path: the file they were read from, or None.
        sha256: hex digest of that file, or None.
        model: name of the model, or None.

    Raises:
        MalformedRun: wrong type or shape, repeated ids, or a NaN or infinite score. The message names array and place.

    Example:
        >>> run = ScoresRun(np.array([1]), np.array([7, 8]), np.array([[0.5, 0.25]]))
        >>> run.why_not("t2i"), run.why_not("t2t")
        (None, 'scores of images with captions do not rank t2t')
    """

    kind: ClassVar[str] = "scores"

    image_ids: IntArray
    caption_ids: IntArray
    scores: NDArray[Any]
    path: Path | None = None
    sha256: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        where = str(self.path or "run")
        check_name(where, self.model)
        for name in ("image_ids", "caption_ids"):
            values = to_array(f"{where}, {name}", getattr(self, name))
            object.__setattr__(self, name, check_ids(where, name, values))
        object.__setattr__(self, "scores", to_array(f"{where}, scores", self.scores))
        _refuse_other_shapes(where, self)
        _refuse_non_finite(where, self)

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None."""
        return None if direction in ("i2t", "t2i") else f"scores of images with captions do not rank {direction}"

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``."""
        return self.image_ids if side == "images" else self.caption_ids

    def facts(self) -> dict[str, Any]:
        """Kind, file, hash and model, type of the scores, number of images and captions."""
        return {
            **facts_of_file(self),
            "type": str(self.scores.dtype),
            "images": {"count": self.image_ids.size},
            "captions": {"count": self.caption_ids.size},
        }


def scores_of_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> ScoresRun:
    """The run from the arrays of a file."""
    lacking = [name for name in ARRAYS if name not in arrays]
    if lacking:
        raise MalformedRun(
            f"{path}: holds scores but not {' and '.join(lacking)}; save image_ids (N,), caption_ids (M,) and scores "
            "(N, M) in one file"
        )
    name = one_text(path, arrays[MODEL], MODEL) if MODEL in arrays else None
    return ScoresRun(arrays["image_ids"], arrays["caption_ids"], arrays["scores"], path, hash_file(path), name)


def _refuse_other_shapes(where: str, run: ScoresRun) -> None:
    shape, wanted = run.scores.shape, (run.image_ids.size, run.caption_ids.size)
    if run.scores.dtype not in TYPES:
        raise MalformedRun(
            f"{where}, scores: has type {run.scores.dtype}, expected float16, float32 or float64. "
            "Save scores.astype('float32')."
        )
    if shape != wanted:
        transposed = " It looks transposed: save scores.T." if shape == wanted[::-1] else ""
        raise MalformedRun(
            f"{where}, scores: has shape {shape}, expected {wanted}: a row per image id and a column per caption "
            f"id.{transposed}"
        )


def _refuse_non_finite(where: str, run: ScoresRun) -> None:
    for start in range(0, run.image_ids.size, ROWS_AT_ONCE):
        finite = np.isfinite(run.scores[start : start + ROWS_AT_ONCE])
        if finite.all():
            continue
        row, column = (int(place[0]) for place in np.nonzero(~finite))
        row += start
        value = run.scores[row, column]
        remedy = "A matrix needs a score for every pair; save rankings instead, which may be cut short."
        if np.isinf(value) and run.scores.dtype == np.float16:
            remedy = "float16 overflows above 65504; save float32 scores."
        raise MalformedRun(
            f"{where}, scores: value {value} in row {row}, column {column} (image {run.image_ids[row]}, caption "
            f"{run.caption_ids[column]}). {remedy}"
        )
