"""Labelled pairs as a Trainer takes them: what is held out, items and targets, batches of like lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.utils.data import Dataset, Sampler

from cxc_eccv.encoding.towers.images import open_picture
from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.processing import EntailmentProcessor

BOUNDARY = 3.0
"""Rating at which a soft label is one half."""

MULTIPLE = 16
"""Lengths of batches are multiples of it: matrix kernels are made anew for every shape that they have not met."""

BATCHES_SORTED = 50
"""Batches whose pairs are sorted by length together."""


def caption_images(library: Library) -> Mapping[str, str]:
    """Key of every COCO caption at hand to that of the image it was written for."""
    found = {}
    for split in library.splits:
        content = library.karpathy(split)
        for caption, image in zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True):
            found[f"coco/{caption}"] = f"coco/{image}"
    return found


def hold_out(
    pairs: pa.Table, source: str, count: int | None, owners: Mapping[str, str], seed: int
) -> tuple[pa.Table, pa.Table]:
    """Pairs to train on, and those held out: of ``source``, with an image among ``count`` that the seed draws.

    An image is of a pair as its premise, or as what its hypothesis was written for, by ``owners``. No pair to train on,
    of whatever source, has one that is held out. ``count`` None is a tenth of the images.
    """
    own = np.array(pc.equal(pairs["source"], source))
    among = sorted({key for key in pairs["image_key"].filter(pa.array(own)).to_pylist() if key is not None})
    count = len(among) // 10 if count is None else count
    if count == 0:
        return pairs, pairs.slice(0, 0)
    if count >= len(among):
        raise InvalidOption(
            f"--held-out {count} of the {len(among)} images of {source}: hold out fewer, and keep some to train on; 0 "
            "for none"
        )
    held = set(np.random.default_rng(seed).choice(among, count, replace=False).tolist())
    touched = np.array([bool(held & images) for images in _images_of(pairs, owners)])
    return pairs.filter(pa.array(~touched)), pairs.filter(pa.array(touched & own))


def keep_apart(pairs: pa.Table, dev: NDArray[np.bool_], owners: Mapping[str, str]) -> tuple[pa.Table, pa.Table]:
    """Pairs to train on, none of which has an image of the pairs that ``dev`` marks, and these."""
    images = _images_of(pairs, owners)
    held = set().union(*(images[row] for row in np.flatnonzero(dev)))
    trained = ~np.array([bool(held & found) for found in images]) & ~dev
    if not trained.any():
        raise InvalidOption("every pair to train on has an image of --dev: train on other parts, or choose by another")
    return pairs.filter(pa.array(trained)), pairs.filter(pa.array(dev))


def _images_of(pairs: pa.Table, owners: Mapping[str, str]) -> list[set[str]]:
    """Of each pair the image of its premise, and the one that its hypothesis was written for, as far as known."""
    keys = zip(pairs["image_key"].to_pylist(), pairs["caption_key"].to_pylist(), strict=True)
    return [{key for key in (image, owners.get(str(caption))) if key is not None} for image, caption in keys]


def soft_targets(pairs: pa.Table, steepness: float) -> list[float]:
    """Labels; with a steepness ``1 / (1 + exp(-steepness (rating - 3)))`` of the pairs that have a rating."""
    labels = np.asarray(pairs["label"], dtype=np.float64)
    if not steepness:
        return [float(label) for label in labels]
    ratings = np.array(pairs["rating"].cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    soft = 1 / (1 + np.exp(-steepness * (ratings - BOUNDARY)))
    return [float(value) for value in np.where(np.isnan(ratings), labels, soft)]


class PairItems(Dataset[dict[str, Any]]):
    """One item for every pair: ``premise``, ``image`` (a path or None), ``hypothesis``, ``target``."""

    def __init__(self, pairs: pa.Table, targets: Sequence[float], files: Mapping[str, Path]) -> None:
        self.premises: list[str] = pairs["premise"].to_pylist()
        self.hypotheses: list[str] = pairs["hypothesis"].to_pylist()
        self.images = [None if name is None else files[name] for name in pairs["image"].to_pylist()]
        self.targets = list(targets)

    def __len__(self) -> int:
        return len(self.premises)

    def __getitem__(self, row: int) -> dict[str, Any]:
        found = {"premise": self.premises[row], "image": self.images[row], "hypothesis": self.hypotheses[row]}
        return {**found, "target": self.targets[row]}

    def sides(self, looks: bool) -> tuple[list[str], list[Path | None] | None, list[str]]:
        """Premises, images unless nobody looks at them, and hypotheses."""
        return self.premises, self.images if looks else None, self.hypotheses

    @property
    def lengths(self) -> list[int]:
        """Characters of every pair."""
        return [len(premise) + len(text) for premise, text in zip(self.premises, self.hypotheses, strict=True)]


class LengthSampler(Sampler[int]):
    """All pairs in the order of an epoch, which depends on seed and epoch alone, in batches of like length."""

    def __init__(self, lengths: Sequence[int], batch: int, seed: int = 0) -> None:
        self.lengths, self.batch, self.seed, self.epoch = np.asarray(lengths), batch, seed, 0

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        drawn = np.random.default_rng([self.seed, self.epoch])
        order = drawn.permutation(len(self.lengths))
        span = BATCHES_SORTED * self.batch
        parts = [order[start : start + span] for start in range(0, len(order), span)]
        ordered = [part[np.argsort(self.lengths[part], kind="stable")] for part in parts]
        batches = [part[start : start + self.batch] for part in ordered for start in range(0, len(part), self.batch)]
        # A batch that is not full can only be the last one: Trainer cuts the order, not the batches.
        full = [batch for batch in batches if len(batch) == self.batch]
        rest = [batch for batch in batches if len(batch) < self.batch]
        for place in drawn.permutation(len(full)):
            yield from full[place].tolist()
        for batch in rest:
            yield from batch.tolist()


@dataclass(frozen=True, slots=True)
class PairCollator:
    """Opens images where the model ``looks`` at them, and makes the inputs of a batch with its ``labels``."""

    processor: EntailmentProcessor
    looks: bool

    def __call__(self, items: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """The batch; an image that is missing or broken is named by the error."""
        paths = [item["image"] if self.looks else None for item in items]
        images = [None if path is None else open_picture(path).image for path in paths]
        texts = [[item[side] for item in items] for side in ("premise", "hypothesis")]
        batch = dict(self.processor(texts[0], images, texts[1], [item["target"] for item in items]))
        return {name: _lengthen(name, tensor, self.processor) for name, tensor in batch.items()}


def _lengthen(name: str, tensor: torch.Tensor, processor: EntailmentProcessor) -> torch.Tensor:
    """Tokens padded to a multiple of :data:`MULTIPLE`, but not beyond the context; other tensors as they are."""
    if not name.endswith(("input_ids", "attention_mask", "token_type_ids")):
        return tensor
    tokenizer = processor.visual_tokenizer if name.startswith("visual_") else processor.tokenizer
    length = min(-(-tensor.shape[1] // MULTIPLE) * MULTIPLE, tokenizer.model_max_length)
    value = tokenizer.pad_token_id if name.endswith("input_ids") else 0
    return functional.pad(tensor, (0, length - tensor.shape[1]), value=value)
