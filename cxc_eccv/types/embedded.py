"""Embeddings: one vector per item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.types.ids import IntArray, all_unique, frozen_ints


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """Ids and one vector per item, checked on creation.

    Attributes:
        ids: (N,) unique int64 ids.
        vectors: (N, D) float32, finite, not too small for float32. A float32 torch tensor on the CPU is used without a
            copy; others are converted.

    Raises:
        MalformedRun: wrong shapes, duplicated ids, NaN or infinite values, values too large or too small for float32,
            or no vectors.
    """

    ids: IntArray
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        ids = np.asarray(on_host(self.ids))
        if ids.size and (ids.dtype.kind not in "iu" or ids.max() > np.iinfo(np.int64).max):
            raise MalformedRun(f"ids have type {ids.dtype}, expected integers that fit int64; use the COCO ids")
        object.__setattr__(self, "ids", frozen_ints(ids))
        values = _array(self.vectors)
        with np.errstate(over="ignore", under="ignore"):
            object.__setattr__(self, "vectors", np.ascontiguousarray(values, dtype=np.float32))
        if self.vectors.ndim != 2 or self.ids.shape != self.vectors.shape[:1] or not self.vectors.size:
            raise MalformedRun(
                f"ids have shape {self.ids.shape} and vectors {self.vectors.shape}; need (N,) and (N, D), N > 0"
            )
        if not all_unique(self.ids):
            ids, counts = np.unique(self.ids, return_counts=True)
            raise MalformedRun(f"id {ids[counts > 1][0]} occurs {counts.max()} times; every item needs one vector")
        bad = ~np.isfinite(self.vectors).all(axis=1)
        if bad.any():
            raise MalformedRun(
                f"{bad.sum()} vectors hold NaN or infinite values, or values beyond float32, the first for id "
                f"{self.ids[bad][0]}; check the model's output on this item"
            )
        faint = faint_rows(values, self.vectors)
        if faint.size:
            raise MalformedRun(
                f"{faint.size} of {self.ids.size} vectors are too small for float32, the first for id "
                f"{self.ids[faint[0]]}; multiply all vectors by one large number"
            )


def faint_rows(values: NDArray[Any], single: NDArray[np.float32]) -> IntArray:
    """Rows whose values are all too small for float32; rows of zeros do not count."""
    peaks = np.maximum(single.max(axis=1), -single.min(axis=1))
    low = np.flatnonzero(peaks < np.finfo(np.float32).tiny)
    return np.asarray(low[(values[low] != 0).any(axis=1)])


def _array(vectors: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(on_host(vectors))
    except ValueError:
        raise MalformedRun("vectors have rows of unequal length; all vectors need the same dimension") from None
    if array.dtype.kind in "OSUc":
        raise MalformedRun(f"vectors have type {array.dtype}, expected float16, float32 or float64")
    return array


def on_host(values: Any) -> Any:  # noqa: ANN401 - arrays, lists, tensors
    """A torch tensor on the CPU, without gradient and in a type NumPy supports; anything else unchanged."""
    if type(values).__module__.partition(".")[0] != "torch":
        return values
    tensor = values.detach().cpu()
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor
