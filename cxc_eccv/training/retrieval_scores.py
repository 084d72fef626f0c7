"""RetrievalScores: a metric of torchmetrics, for Lightning and for loops of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.evaluation import Fields, Request, evaluate_request
from cxc_eccv.evaluation.calls import find_library
from cxc_eccv.extras import needs_extra
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, IntArray, Report

with needs_extra("torchmetrics", subject="RetrievalScores needs"):
    import torch
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat

STATES = {
    "image_ids": torch.int64,
    "image_vectors": torch.float32,
    "caption_ids": torch.int64,
    "caption_vectors": torch.float32,
}

ROUNDING = 0.05
"""How far vectors of an item may differ, as a part of their length: batches round differently, most in bfloat16."""


class RetrievalScores(Metric):
    """Scores of all batches of a split, on all processes together, as a metric of torchmetrics.

    Every query ranks the whole gallery, so there is one result, when all batches are there: ``compute`` returns the
    scores of :func:`cxc_eccv.evaluate`, and ``forward`` takes a batch as ``update`` does and returns no score. Items
    that samplers repeat to fill batches count once.

    Args:
        library: mirror folder, ``"sample"``, a Library, or None for ``CXC_ECCV_DATA``, else the download cache.
        tasks: as in :func:`cxc_eccv.evaluate`.
        **fields: keyword arguments of :func:`cxc_eccv.evaluate`. Without them the split is ``validation``, and there
            are no intervals.

    Attributes:
        report: the whole report of the last ``compute``; None before the first.

    Raises:
        InvalidOption: an option is out of range.
        UnknownName: a task, metric or split is unknown.

    Example:
        >>> library = Library("sample")
        >>> split = library.split("validation")
        >>> vectors = torch.randn(split.caption_ids.size, 8, generator=torch.Generator().manual_seed(0))
        >>> metric = RetrievalScores(library, "cxc/t2t")
        >>> for batch in torch.arange(split.caption_ids.size).split(64):
        ...     metric.update(caption_ids=split.caption_ids[batch], captions=vectors[batch])
        >>> list(metric.compute())
        ['cxc/t2t/recall_at_1', 'cxc/t2t/recall_at_5', 'cxc/t2t/recall_at_10', 'cxc/t2t/median_rank']
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    report: Report | None = None
    width: torch.Tensor

    def __init__(
        self,
        library: str | Path | Library | None = None,
        tasks: str | Sequence[str] = "cxc",
        **fields: Unpack[Fields],
    ) -> None:
        super().__init__()
        self._request = Request(tasks=tasks, **Fields(split="validation", intervals="none") | fields)
        self._library = find_library(library)
        # Vectors are kept flat, as those of a process without batches could not be joined otherwise.
        for name in STATES:
            self.add_state(name, default=[], dist_reduce_fx="cat")
        self.add_state("width", default=torch.tensor(0), dist_reduce_fx="max")

    def update(
        self,
        *,
        image_ids: ArrayLike | None = None,
        images: ArrayLike | torch.Tensor | None = None,
        caption_ids: ArrayLike | None = None,
        captions: ArrayLike | torch.Tensor | None = None,
    ) -> None:
        """Add the items of a batch: images, captions, or both.

        Args:
            image_ids: (N,) integers.
            images: (N, D) vectors of any floating type.
            caption_ids: (M,) integers.
            captions: (M, D) vectors of any floating type.

        Raises:
            MalformedRun: ids are not integers, or there is not one vector for each.
        """
        self._add("image", image_ids, images)
        self._add("caption", caption_ids, captions)

    def _add(self, side: str, ids: ArrayLike | None, vectors: ArrayLike | torch.Tensor | None) -> None:
        if ids is None and vectors is None:
            return
        # NumPy arrays are copied, as those of a split are read-only.
        parts = [() if part is None else part for part in (ids, vectors)]
        numbers, rows = (part if torch.is_tensor(part) else torch.as_tensor(np.array(part)) for part in parts)
        is_whole = not (numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool)
        if not is_whole or numbers.ndim != 1 or rows.ndim != 2 or len(numbers) != len(rows):
            shapes = f"{tuple(numbers.shape)} ({numbers.dtype}) and {tuple(rows.shape)}"
            raise MalformedRun(
                f"{side}_ids and {side}s have the shapes {shapes}; give (N,) integers and (N, D) vectors"
            )
        if self.width not in (0, rows.shape[1]):
            raise MalformedRun(f"{side}s have {rows.shape[1]} dimensions, vectors before them {self.width}; give one D")
        self.width = torch.tensor(rows.shape[1], device=self.device)
        getattr(self, f"{side}_ids").append(numbers.to(self.device, torch.int64))
        getattr(self, f"{side}_vectors").append(rows.detach().to(self.device, torch.float32).flatten())

    def forward(self, **batch: Any) -> dict[str, float]:  # noqa: ANN401 - as of update
        """Take a batch as ``update`` does; the scores of a batch are none, ``{}``."""
        self.update(**batch)
        return {}

    def compute(self) -> dict[str, float]:
        """The scores of all items by the keys of a report, such as ``cxc/t2i/recall_at_1``.

        Raises:
            RunError: an item of the split is missing or unknown, there is none, or one id has several vectors.
        """
        run = EmbeddingsRun(self._join("image"), self._join("caption"))
        self.report = evaluate_request(run, self._request, self._library, progress=False)
        return dict(self.report.scores)

    def _join(self, side: str) -> Embeddings | None:
        ids, flat = (dim_zero_cat(getattr(self, f"{side}_{part}")).cpu().numpy() for part in ("ids", "vectors"))
        return _drop_repeats(side, ids, flat.reshape(-1, int(self.width))) if ids.size else None

    def sync(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as of torchmetrics
        """Join the items of all processes, as torchmetrics does before ``compute``."""
        for name, dtype in STATES.items():  # torchmetrics would send floats for a process without batches
            if not len(getattr(self, name)):
                setattr(self, name, [torch.empty(0, dtype=dtype, device=self.device)])
        super().sync(*args, **options)


def _drop_repeats(side: str, ids: IntArray, vectors: NDArray[np.float32]) -> Embeddings:
    """The first vector of every id; raises MalformedRun if another one differs by more than :data:`ROUNDING`."""
    numbers, first, places = np.unique(ids, return_index=True, return_inverse=True)
    if numbers.size < ids.size:
        kept = vectors[first[places]]
        apart = np.linalg.norm(vectors - kept, axis=1) > ROUNDING * np.linalg.norm(kept, axis=1)
        if apart.any():
            raise MalformedRun(
                f"{side} {ids[apart][0]} has several vectors; give every {side} its id, and encode without dropout "
                "(model.eval()), as one id stands for one vector"
            )
    return Embeddings(numbers, vectors[first])
