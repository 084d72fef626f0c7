"""RetrievalScores: a metric of torchmetrics, for Lightning and for loops of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.evaluation import Fields, Request, evaluate_request, warn_of_doubts
from cxc_eccv.evaluation.calls import find_library
from cxc_eccv.extras import needs_extra
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.runs.run import whole_ids
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, IntArray
from cxc_eccv.types.ids import check_vectors, on_host, to_array

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

ITEM_KINDS = ("image", "caption")

Items = tuple[IntArray, NDArray[np.float32]]
"""(N,) ids, possibly repeated, and their (N, D) vectors."""

VECTOR_ROUNDING = 0.05
"""How far vectors of an item may differ, as a part of their length: batches round differently, most in bfloat16."""


class RetrievalScores(Metric):
    """Scores of all batches of a split, on all processes together, as a metric of torchmetrics.

    Every query ranks the whole gallery, so there is one result, when all batches are there: ``compute`` returns the
    scores of :func:`cxc_eccv.evaluate`, and ``forward`` takes a batch as ``update`` does and returns no score. Items
    that samplers repeat to fill batches count once. Call ``reset`` after the ``compute`` of every epoch.

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

    Warns:
        UserWarning: the scores are suspect, as ``report.doubts`` says; each doubt once.

    Example:
        >>> library = Library("sample")
        >>> split = library.split("validation")
        >>> images, owners = torch.tensor(split.caption_image_ids.tolist()).unique(return_inverse=True)
        >>> vectors = torch.eye(images.numel())[owners]  # of a model that tells images apart
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
        self._known_doubts: set[str] = set()
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
            image_ids: (N,) integers, the COCO ids.
            images: (N, D) vectors in float16, bfloat16, float32 or float64; they are copied.
            caption_ids: (M,) integers.
            captions: (M, D) vectors.

        Raises:
            MalformedRun: ids are not integers, there is not one vector for each, a value is NaN or infinite, or vectors
                have another type or number of dimensions. Nothing of the batch is added.
        """
        parts = {"image": (image_ids, images), "caption": (caption_ids, captions)}
        batch = {side: items for side, part in parts.items() if (items := _check_batch(side, *part)) is not None}
        width = int(self.width)
        for side, (_, vectors) in batch.items():
            if width not in (0, vectors.shape[1]):
                raise MalformedRun(
                    f"{side}s have {vectors.shape[1]} dimensions, vectors before them {width}; give one D"
                )
            width = vectors.shape[1]
        self.width = torch.tensor(width, device=self.device)
        for side, (ids, vectors) in batch.items():
            getattr(self, f"{side}_ids").append(torch.tensor(ids, device=self.device))
            getattr(self, f"{side}_vectors").append(torch.tensor(vectors, device=self.device).flatten())

    def forward(self, **batch: Any) -> dict[str, float]:  # noqa: ANN401 - as of update
        """Take a batch as ``update`` does; the scores of a batch are none, ``{}``."""
        self.update(**batch)
        return {}

    def compute(self) -> dict[str, float]:
        """The scores of all items by the keys of a report, such as ``cxc/t2i/recall_at_1``.

        Raises:
            RunError: an item of the split is missing or unknown, there is none, one id has several vectors, ``reset``
                was not called after the last epoch, or processes have vectors of different dimensions.
        """
        joined = {side: items for side in ITEM_KINDS if (items := self._join(side))[0].size}
        _refuse_second_epoch(joined)
        distinct = {side: _drop_repeats(side, *items) for side, items in joined.items()}
        run = EmbeddingsRun(distinct.get("image"), distinct.get("caption"))
        self.report = evaluate_request(run, self._request, self._library, progress=False)
        warn_of_doubts(self.report.doubts, self._known_doubts)
        return dict(self.report.scores)

    def _join(self, side: str) -> Items:
        """The ids and vectors of all processes."""
        ids, flat = (dim_zero_cat(getattr(self, f"{side}_{part}")).cpu().numpy() for part in ("ids", "vectors"))
        width = int(self.width)
        if flat.size != ids.size * width:
            raise MalformedRun(
                f"{ids.size} {side}s have {flat.size} values, where vectors of {width} dimensions have "
                f"{ids.size * width}: processes gave vectors of different dimensions; encode with one model on all"
            )
        return ids, flat.reshape(-1, width) if width else flat.reshape(0, 0)

    def reset(self) -> None:
        """Forget all items, also those that a failed ``compute`` has joined of all processes."""
        for name in STATES:
            setattr(self, name, [])
        super().reset()

    def sync(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as of torchmetrics
        """Join the items of all processes, as torchmetrics does before ``compute``."""
        for name, dtype in STATES.items():  # torchmetrics would send floats for a process without batches
            if not len(getattr(self, name)):
                setattr(self, name, [torch.empty(0, dtype=dtype, device=self.device)])
        super().sync(*args, **options)


def _check_batch(side: str, ids: ArrayLike | None, vectors: ArrayLike | torch.Tensor | None) -> Items | None:
    """The ids and float32 vectors of a batch on the CPU; None if there are none."""
    if ids is None and vectors is None:
        return None
    if ids is None or vectors is None:
        raise MalformedRun(f"RetrievalScores takes {side}_ids and {side}s together; give (N,) ids and (N, D) vectors")
    numbers = whole_ids(on_host(ids), f"RetrievalScores, {side}_ids").astype(np.int64)
    rows = to_array(f"RetrievalScores, {side}s", on_host(vectors))
    if not numbers.size and rows.shape[:1] == (0,):
        return None
    return numbers, check_vectors("RetrievalScores", f"{side}s", rows, numbers)


def _refuse_second_epoch(sides: Mapping[str, Items]) -> None:
    """Raise MalformedRun if every item came at least twice, and most vectors of a side differ from the first ones."""
    is_moved = []
    for ids, vectors in sides.values():
        first_rows, repeats = _find_repeats(ids)
        if np.unique(ids[repeats]).size < np.unique(ids).size:
            return
        changed = (vectors[repeats] != vectors[first_rows[repeats]]).any(axis=1)
        is_moved.append(changed.mean() > 0.5)
    if any(is_moved):
        raise MalformedRun(
            f"every one of the {' and '.join(f'{side}s' for side in sides)} came at least twice, and most vectors "
            "differ from the first ones, as those of two epochs do; call reset() after the compute() of every epoch. "
            "Within an epoch, give every item once, and every process its own share of the split"
        )


def _drop_repeats(side: str, ids: IntArray, vectors: NDArray[np.float32]) -> Embeddings:
    """The first vector of every id; raises MalformedRun if another one differs by more than :data:`VECTOR_ROUNDING`."""
    first_rows, repeats = _find_repeats(ids)
    first_vectors = vectors[first_rows[repeats]].astype(np.float64)  # squares of float32 may overflow
    distances = np.linalg.norm(vectors[repeats] - first_vectors, axis=1)
    apart = distances > VECTOR_ROUNDING * np.linalg.norm(first_vectors, axis=1)
    if apart.any():
        raise MalformedRun(
            f"{side} {ids[repeats][apart][0]} has several vectors; give every {side} its id, and encode without "
            "dropout (model.eval()), as one id stands for one vector"
        )
    numbers, rows = np.unique(ids, return_index=True)
    return Embeddings(numbers, vectors[rows])


def _find_repeats(ids: IntArray) -> tuple[IntArray, IntArray]:
    """(N,) the first row with the id of each row, and the rows that are not the first."""
    _, rows, places = np.unique(ids, return_index=True, return_inverse=True)
    first_rows = rows[places]
    return first_rows, np.flatnonzero(first_rows != np.arange(ids.size))
