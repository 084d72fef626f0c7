"""Contrastive training with several positives per query: the positives of a batch, and a loss over all of them.

In a batch, a caption may describe several images, but the usual loss treats all but one as negatives.
``collect_positives`` reads the judged pairs of a dataset, ``MultiPositiveCollator`` marks those of a batch, and
``multi_positive_loss`` trains on all of them, in your training loop or a ``transformers.Trainer``. Less certain pairs
can be ignored: they count neither as positives nor as negatives.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cxc_eccv.errors import InvalidOption

if TYPE_CHECKING:
    import datasets
    import torch

Row = Mapping[str, Any]
"""A row of a dataset: column to value."""

PAIRS_COLUMNS = ("image_id", "caption_id", "weak_positives")
RETRIEVAL_COLUMNS = ("query_id", "direction", "positives", "negatives")
"""Columns that identify the two configs."""

OF_A_ROW = ("image", "image_id", "caption", "caption_id")


def collect_positives(dataset: datasets.Dataset | datasets.IterableDataset) -> dict[int, set[int]]:
    """Image id to the ids of the captions that describe the image, from a dataset.

    For ``pairs`` these are the captions of the image and the weak positives. For ``retrieval`` they are the positive
    pairs of images and captions in either direction; filter rows or judgments first to use fewer sources.

    Args:
        dataset: one split of the config ``pairs`` or ``retrieval``, streamed or not.

    Raises:
        InvalidOption: the dataset has other columns, or no pair of an image and a caption.

    Example:
        >>> import tempfile
        >>> import cxc_eccv as ce
        >>> pairs = ce.load("pairs", split="test", data_dir="sample", cache_dir=tempfile.mkdtemp())
        >>> positives = collect_positives(pairs)
        >>> len(positives), pairs[0]["caption_id"] in positives[pairs[0]["image_id"]]
        (60, True)
    """
    columns = dataset.column_names or ()
    positives: defaultdict[int, set[int]] = defaultdict(set)
    if set(PAIRS_COLUMNS) <= set(columns):
        for row in dataset.select_columns(list(PAIRS_COLUMNS)):
            positives[row["image_id"]] |= {row["caption_id"], *(weak["caption_id"] for weak in row["weak_positives"])}
    elif set(RETRIEVAL_COLUMNS) <= set(columns):
        i2t, t2i = map(dataset.features["direction"].str2int, ("i2t", "t2i"))
        for row in dataset.select_columns(list(RETRIEVAL_COLUMNS[:3])):
            ids = [judgment["id"] for judgment in row["positives"]]
            if row["direction"] == i2t:
                positives[row["query_id"]].update(ids)
            elif row["direction"] == t2i:
                for image_id in ids:
                    positives[image_id].add(row["query_id"])
    else:
        raise InvalidOption(
            f"the dataset has the columns {list(columns)}; give one split of the config `pairs` or `retrieval`"
        )
    if not positives:
        raise InvalidOption("the dataset has no pair of an image and a caption; keep rows of direction i2t or t2i")
    return dict(positives)


@dataclass(slots=True)
class MultiPositiveCollator:
    """Makes batches from rows of ``pairs`` or ``captions`` with images, and marks the positive pairs of each batch.

    A batch holds the output of ``processor`` for the captions and images, and ``positives``, (K, K) bool: whether the
    caption of row j describes the image of row i, because a row of the batch pairs them or they are judged to match.
    With ``ignored`` a batch also holds ``ignored``, (K, K) bool, the pairs that are neither positives nor negatives.
    Of a row of ``captions`` one caption is drawn with torch's generator. The first batch with captions that exceed the
    context of the processor's tokenizer warns of their number; of several workers only the first one warns.

    Attributes:
        processor: called as ``processor(text=captions, images=images, padding=True, truncation=True,
            return_tensors="pt")``, like processors of ``transformers``, and returns a mapping of tensors. Images are
            RGB.
        positives: image id to the ids of the captions that describe it, as :func:`collect_positives` returns.
        ignored: image id to the ids of captions that may describe it, such as weak positives; None for no mask.

    Raises:
        InvalidOption: rows lack a needed column or their image.

    Example:
        >>> import torch
        >>> from PIL import Image
        >>> def process(text, images, **_):
        ...     return {"lengths": torch.tensor([len(caption) for caption in text])}
        >>> row = {"image": Image.new("L", (8, 6)), "image_id": 1, "caption_id": 11, "caption": "a cat"}
        >>> batch = MultiPositiveCollator(process, {1: {22}})([row, row | {"image_id": 2, "caption_id": 22}])
        >>> batch["positives"].tolist(), batch["lengths"].tolist()
        ([[True, True], [False, True]], [5, 5])
    """

    processor: Callable[..., Mapping[str, torch.Tensor]]
    positives: Mapping[int, Collection[int]]
    ignored: Mapping[int, Collection[int]] | None = None
    _warned: bool = field(default=False, init=False, repr=False, compare=False)

    def __call__(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        """A batch from the rows."""
        rows = [_draw_caption(row) for row in rows]
        _check_rows(rows)
        captions = [row["caption"] for row in rows]
        images = [row["image"].convert("RGB") for row in rows]  # some images of COCO are greyscale
        inputs = self.processor(text=captions, images=images, padding=True, truncation=True, return_tensors="pt")
        self._warn_of_truncation(captions, inputs)
        known = {row["image_id"]: set(self.positives.get(row["image_id"], ())) for row in rows}
        for row in rows:
            known[row["image_id"]].add(row["caption_id"])
        positives = _mark(rows, known)
        if self.ignored is None:
            return {**inputs, "positives": positives}
        return {**inputs, "positives": positives, "ignored": _mark(rows, self.ignored) & ~positives}

    def _warn_of_truncation(self, captions: Sequence[str], inputs: Mapping[str, torch.Tensor]) -> None:
        """Warn once of the captions of a batch that were truncated; only a batch of the full width can have some."""
        tokenizer = getattr(self.processor, "tokenizer", None)
        if self._warned or tokenizer is None or inputs["input_ids"].shape[1] < tokenizer.model_max_length:
            return
        from torch.utils.data import get_worker_info

        whole = tokenizer(captions, return_attention_mask=False, verbose=False)["input_ids"]
        longer = sum(len(ids) > tokenizer.model_max_length for ids in whole)
        worker = get_worker_info()
        self._warned = longer > 0
        if self._warned and (worker is None or worker.id == 0):
            warnings.warn(
                f"{longer} of the {len(captions)} captions of a batch exceed the context of "
                f"{tokenizer.model_max_length} tokens and are truncated; later batches are not reported",
                stacklevel=3,
            )


def _draw_caption(row: Row) -> Row:
    """A row of ``pairs`` as it is; of ``captions``, the row with one of its captions."""
    if not row.get("captions"):
        return row
    import torch

    caption = row["captions"][int(torch.randint(len(row["captions"]), ()))]
    return {**row, "caption_id": caption["id"], "caption": caption["text"]}


def _mark(rows: Sequence[Row], known: Mapping[int, Collection[int]]) -> torch.Tensor:
    import torch

    caption_ids = np.array([row["caption_id"] for row in rows])
    return torch.from_numpy(np.stack([np.isin(caption_ids, list(known.get(row["image_id"], ()))) for row in rows]))


def _check_rows(rows: Sequence[Row]) -> None:
    missing = [column for column in OF_A_ROW if column not in rows[0]]
    if missing:
        raise InvalidOption(
            f"the rows lack {', '.join(missing)}; use the config `pairs` loaded with images=FOLDER, or `captions` "
            "with its images, and remove_unused_columns=False in a Trainer"
        )
    without = [row["caption_id"] for row in rows if row["image"] is None]
    if without:
        raise InvalidOption(
            f"the row of caption {without[0]} has no image. Leave such rows out: with ce.load(..., "
            "missing_images='drop'), or dataset.filter(lambda row: row['image'] is not None)"
        )


def multi_positive_loss(
    similarities: torch.Tensor,
    positives: torch.Tensor,
    *,
    ignored: torch.Tensor | None = None,
    temperature: float | torch.Tensor = 1.0,
) -> torch.Tensor:
    r"""Mean contrastive loss of a batch of images and captions, each with one or more positives.

    An image i with the positives :math:`P_i` among the captions has the loss
    :math:`L_i = -\frac{1}{|P_i|} \sum_{p \in P_i} \log \frac{e^{S_{ip}/\tau}}{\sum_j e^{S_{ij}/\tau}}`, with the mean
    outside the logarithm and all captions in the denominator (Khosla et al., arXiv 2004.11362, eq. 2). Captions have
    the same loss over the columns; the result is half the sum of the two means. With one positive each it is CLIP's
    loss.

    Args:
        similarities: (I, C) similarities of images to captions, of any floating type; computed in single precision.
        positives: (I, C) bool, whether the caption describes the image.
        ignored: (I, C) bool, pairs to leave out of all denominators unless they are positives; None for none.
        temperature: divisor of the similarities; 1 for scaled logits, such as ``logits_per_image`` of CLIP.

    Raises:
        InvalidOption: shapes differ, a mask is not bool, the temperature is not positive, or an image or caption has
            no positive.

    Example:
        >>> import torch
        >>> similarities = torch.tensor([[4.0, 3.0, 0.0], [0.0, 1.0, 5.0]])
        >>> positives = torch.tensor([[True, True, False], [False, False, True]])
        >>> round(multi_positive_loss(similarities, positives).item(), 4)
        0.2381
    """
    import torch

    for name, mask in (("positives", positives), ("ignored", positives if ignored is None else ignored)):
        if mask.dtype != torch.bool or similarities.shape != mask.shape or similarities.ndim != 2:
            shapes = f"{tuple(similarities.shape)} and {tuple(mask.shape)} ({mask.dtype})"
            raise InvalidOption(
                f"similarities and {name} are {shapes}; give two matrices of one shape, the second bool"
            )
    if not temperature > 0:
        raise InvalidOption(f"temperature is {temperature}, expected a number above 0")
    for axis, side in ((1, "image"), (0, "caption")):
        lonely = int((~positives.any(axis)).sum())
        if lonely:
            raise InvalidOption(f"{lonely} of {positives.shape[1 - axis]} {side}s of the batch have no positive in it")
    logits = similarities.float() / temperature
    if ignored is not None:
        logits = logits.masked_fill(ignored & ~positives, float("-inf"))
    return (in_batch_softmax(logits, positives).mean() + in_batch_softmax(logits.T, positives.T).mean()) / 2


def in_batch_softmax(similarities: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """(K,) losses of (K, N) scaled similarities by eq. 2 of Khosla et al., with a softmax over the whole row."""
    return similarities.logsumexp(1) - mean_of_positives(similarities, positives)


def mean_of_positives(similarities: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """(K,) means of the (K, N) similarities over the positives of each row."""
    return similarities.masked_fill(~positives, 0).sum(1) / positives.sum(1)
