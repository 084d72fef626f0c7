"""Labelled pairs of a run: those to train on, held-out ones, items with targets, batches of similar length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.utils.data import Dataset, Sampler

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.encoding.images import open_picture
from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.entailment_classifier.options import DataOptions
from cxc_eccv.studies.entailment.classifier import EntailmentConfig
from cxc_eccv.studies.entailment.processing import EntailmentProcessor
from cxc_eccv.studies.entailment.training_data import TrainingData, load_training_data, part_of
from cxc_eccv.studies.trainers.enhanced import Row
from cxc_eccv.studies.trainers.training_record import TrainingRecord

MULTIPLE = 16
"""Lengths of batches are multiples of this, since matrix kernels are compiled for every new shape."""

BATCHES_SORTED = 50
"""Number of batches whose pairs are sorted by length together."""


class Pairs(NamedTuple):
    """Pairs to train on, held-out pairs, their provenance, and the image files by name."""

    trained: pa.Table
    held: pa.Table
    provenance: TrainingRecord
    files: dict[str, Path]

    @property
    def summary(self) -> str:
        """How many pairs are trained on, and how many were left out and why."""
        reasons = Counter[str]()
        for source in self.provenance["sources"].values():
            reasons.update(source["left_out"])
        left_out = "; ".join(f"{count:,} ({reason})" for reason, count in reasons.most_common())
        counts = f"training on {self.trained.num_rows:,} pairs, {self.held.num_rows:,} held out"
        return f"{counts}. Left out: {left_out}" if left_out else counts


def read_pairs(library: Library, data: DataOptions, seed: int, config: EntailmentConfig) -> Pairs:
    """The pairs of a run, of the kinds that it uses."""
    images = data.image_folder if config.has_visual else None
    loaded = load_training_data(
        library,
        data.parts,
        images=images,
        allow_test_data=data.allow_test_data,
        used_as=data.kinds(),
    )
    kinds = ["multimodal"]
    kinds += ["text"] if config.has_text and data.text_data else []
    kinds += ["visual"] if config.has_visual and data.visual_data else []
    kept = np.asarray(pc.is_in(loaded.pairs["kind"], value_set=pa.array(kinds)))
    usable = loaded.pairs.filter(pa.array(kept))
    if not usable.num_rows:
        others = ", ".join(loaded.pairs["kind"].unique().to_pylist())
        raise InvalidOption(f"all pairs are of kind {others}, which this run does not use: change its branches or data")
    trained, held = _split_pairs(loaded, kept, library, data, seed)
    _refuse_untrained(config, trained)
    files = {}
    if images is not None:
        find = ImageFolder(images).find
        files = {name: find(name) for name in usable["image"].unique().to_pylist() if name is not None}
    record: TrainingRecord = {
        **loaded.provenance,
        "dev": data.dev,
        "left_out_by_kind": loaded.pairs.num_rows - usable.num_rows,
        "trained": trained.num_rows,
        "held_out": held.num_rows,
        "beside_held_out": usable.num_rows - trained.num_rows - held.num_rows,
    }
    return Pairs(trained, held, record, {name: path for name, path in files.items() if path is not None})


def _split_pairs(
    loaded: TrainingData, kept: NDArray[np.bool_], library: Library, data: DataOptions, seed: int
) -> tuple[pa.Table, pa.Table]:
    """Pairs to train on, and those that choose the checkpoint, among the ``kept`` ones."""
    usable = loaded.pairs.filter(pa.array(kept))
    owners = caption_images(library)
    if data.dev is None:
        return hold_out(usable, part_of(data.train_on[0])[0].name, data.held_out, owners, seed)
    corpus, part = part_of(data.dev)
    size = int(loaded.provenance["sources"][f"{corpus.name}/{part}"]["pairs"])
    is_dev = np.arange(loaded.pairs.num_rows) >= loaded.pairs.num_rows - size
    return keep_apart(usable, is_dev[kept], owners)


def _refuse_untrained(config: EntailmentConfig, pairs: pa.Table) -> None:
    """Raise InvalidOption if a branch, or the gate with the joint head, has no pair to learn from."""
    kinds = set(pairs["kind"].unique().to_pylist())
    untrained = [
        part
        for part, is_there, learns_from in (
            ("the text branch", config.has_text, {"text", "multimodal"}),
            ("the visual branch", config.has_visual, {"visual", "multimodal"}),
            ("the gate with the joint head", config.has_text and config.has_visual, {"multimodal"}),
        )
        if is_there and not kinds & learns_from
    ]
    if untrained:
        raise InvalidOption(
            f"no pair trains {' and '.join(untrained)}: all pairs are {' or '.join(sorted(kinds))}. Give images "
            "(--images) and corpora whose pairs have captions and an image, or train one branch (--branches)"
        )


def caption_images(library: Library) -> Mapping[str, str]:
    """Key of every available COCO caption to the key of its image."""
    owners = {}
    for split in library.splits:
        content = library.split(split)
        for caption, image in zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True):
            owners[f"coco/{caption}"] = f"coco/{image}"
    return owners


def hold_out(
    pairs: pa.Table, source: str, count: int | None, owners: Mapping[str, str], seed: int
) -> tuple[pa.Table, pa.Table]:
    """Pairs to train on, and held-out pairs of ``source`` with one of ``count`` random images, by default a tenth.

    The images of a pair are that of its premise, and by ``owners`` that of its hypothesis. Pairs to train on, of any
    source, have no held-out image.
    """
    of_source = np.array(pc.equal(pairs["source"], source))
    among = sorted({key for key in pairs["image_key"].filter(pa.array(of_source)).to_pylist() if key is not None})
    count = len(among) // 10 if count is None else count
    if count == 0:
        return pairs, pairs.slice(0, 0)
    if count >= len(among):
        raise InvalidOption(
            f"--held-out {count}: {source} has only {len(among)} images; hold out fewer, or 0 for none, and keep some "
            "to train on"
        )
    held = set(np.random.default_rng(seed).choice(among, count, replace=False).tolist())
    touched = np.array([bool(held & images) for images in _images_of(pairs, owners)])
    return pairs.filter(pa.array(~touched)), pairs.filter(pa.array(touched & of_source))


def keep_apart(pairs: pa.Table, dev: NDArray[np.bool_], owners: Mapping[str, str]) -> tuple[pa.Table, pa.Table]:
    """Pairs to train on, without images of the pairs that ``dev`` marks, and the marked pairs."""
    images = _images_of(pairs, owners)
    held = set().union(*(images[row] for row in np.flatnonzero(dev)))
    trained = ~np.array([bool(held & keys) for keys in images]) & ~dev
    if not trained.any():
        raise InvalidOption("all pairs to train on have an image of --dev: train on other parts, or give another --dev")
    return pairs.filter(pa.array(trained)), pairs.filter(pa.array(dev))


def _images_of(pairs: pa.Table, owners: Mapping[str, str]) -> list[set[str]]:
    """The known images of each pair: that of its premise, and that of its hypothesis."""
    keys = zip(pairs["image_key"].to_pylist(), pairs["caption_key"].to_pylist(), strict=True)
    return [{key for key in (image, owners.get(str(caption))) if key is not None} for image, caption in keys]


class PairItems(Dataset[Row]):
    """One item for every pair: ``premise``, ``image`` (a path or None), ``hypothesis``, ``target``."""

    def __init__(self, pairs: pa.Table, targets: Sequence[float], files: Mapping[str, Path]) -> None:
        self.premises: list[str] = pairs["premise"].to_pylist()
        self.hypotheses: list[str] = pairs["hypothesis"].to_pylist()
        self.images = [None if name is None else files[name] for name in pairs["image"].to_pylist()]
        self.targets = list(targets)

    def __len__(self) -> int:
        return len(self.premises)

    def __getitem__(self, row: int) -> Row:
        item = {"premise": self.premises[row], "image": self.images[row], "hypothesis": self.hypotheses[row]}
        return {**item, "target": self.targets[row]}

    def sides(self, looks: bool) -> tuple[list[str], list[Path | None] | None, list[str]]:
        """Premises, images if the model looks at them, and hypotheses."""
        return self.premises, self.images if looks else None, self.hypotheses

    @property
    def lengths(self) -> list[int]:
        """The number of characters of every pair."""
        return [len(premise) + len(text) for premise, text in zip(self.premises, self.hypotheses, strict=True)]


class LengthSampler(Sampler[int]):
    """All pairs in the order of an epoch, which depends only on seed and epoch, in batches of similar length."""

    def __init__(self, lengths: Sequence[int], batch: int, seed: int = 0) -> None:
        self.lengths = np.asarray(lengths)
        self.batch = batch
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        drawn = np.random.default_rng([self.seed, self.epoch])
        order = drawn.permutation(len(self.lengths))
        span = BATCHES_SORTED * self.batch
        parts = [order[start : start + span] for start in range(0, len(order), span)]
        ordered = [part[np.argsort(self.lengths[part], kind="stable")] for part in parts]
        batches = [part[start : start + self.batch] for part in ordered for start in range(0, len(part), self.batch)]
        # An incomplete batch must come last, since Trainer cuts batches from the order.
        full = [batch for batch in batches if len(batch) == self.batch]
        rest = [batch for batch in batches if len(batch) < self.batch]
        for place in drawn.permutation(len(full)):
            yield from full[place].tolist()
        for batch in rest:
            yield from batch.tolist()


@dataclass(frozen=True, slots=True)
class PairCollator:
    """Makes the inputs of a batch with its ``labels``; opens images if the model ``looks`` at them."""

    processor: EntailmentProcessor
    looks: bool

    def __call__(self, items: Sequence[Row]) -> dict[str, torch.Tensor]:
        """The batch; the error for a missing or broken image names its file."""
        paths = [item["image"] if self.looks else None for item in items]
        images = [None if path is None else open_picture(path).image for path in paths]
        texts = [[item[side] for item in items] for side in ("premise", "hypothesis")]
        batch = dict(self.processor(texts[0], images, texts[1], [item["target"] for item in items]))
        return {name: _lengthen(name, tensor, self.processor) for name, tensor in batch.items()}


def _lengthen(name: str, tensor: torch.Tensor, processor: EntailmentProcessor) -> torch.Tensor:
    """Tokens padded to a multiple of :data:`MULTIPLE`, at most the context; other tensors unchanged."""
    if not name.endswith(("input_ids", "attention_mask", "token_type_ids")):
        return tensor
    tokenizer = processor.visual_tokenizer if name.startswith("visual_") else processor.tokenizer
    length = min(-(-tensor.shape[1] // MULTIPLE) * MULTIPLE, tokenizer.model_max_length)
    value = tokenizer.pad_token_id if name.endswith("input_ids") else 0
    return functional.pad(tensor, (0, length - tensor.shape[1]), value=value)
