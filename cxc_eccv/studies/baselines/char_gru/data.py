"""The captions of the character GRU: groups of an image, features, characters, rows, batches, held-out images."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from torch.utils.data import Dataset, Sampler
from transformers import PreTrainedTokenizerFast

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.encoding import Encoding, TenCrops, encode_once, load_model, text_encoder
from cxc_eccv.errors import InvalidOption
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup, caption_groups, held_out_recalls, part_images
from cxc_eccv.studies.trainers.enhanced import Row
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.studies.trainers.tokens import AnyTokenizer, token_ids
from cxc_eccv.studies.trainers.trainer import AnyModel
from cxc_eccv.types import Embeddings

Draw = tuple[int, int, int]
"""Epoch, image, and index of the image's row."""

PADDING = "<pad>"
UNKNOWN = "<unk>"

WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)

SELECTION = "selection"
"""Name of the measure that chooses among snapshots."""


def read_groups(library: Library, names: Sequence[str], *, coco_tokens: bool) -> list[CaptionGroup]:
    """Captions of parts named as for :func:`caption_groups`; those of COCO as tokens, if so wanted."""
    groups = caption_groups(library, names)
    if not coco_tokens:
        return groups
    return [
        replace(group, texts=tuple(map(coco_text, group.texts))) if group.photographs == COCO.photographs else group
        for group in groups
    ]


def refuse_shared(groups: Sequence[CaptionGroup], image_keys: Set[tuple[str, int]], options: str) -> None:
    """Raise InvalidOption if groups have one of these images; ``options`` names where they are."""
    both = [group.image_id for group in groups if group.image_key in image_keys]
    if both:
        raise InvalidOption(
            f"{len(both)} images are in {options}, the first: {both[0]}; give parts without common images"
        )


def coco_text(text: str) -> str:
    """A COCO caption in the paper's form: lower case without ASCII punctuation, with a full stop."""
    return f"{' '.join(text.lower().translate(WITHOUT_PUNCTUATION).split())}."


def hold_out(groups: Sequence[CaptionGroup], count: int) -> tuple[list[CaptionGroup], list[CaptionGroup]]:
    """Groups to train on, and ``count`` evenly spaced others to select snapshots by."""
    if not 0 < count < len(groups):
        raise InvalidOption(
            f"cannot hold out {count} of {len(groups)} images; hold out at least one, and keep one to train on"
        )
    places = {place * len(groups) // count for place in range(count)}
    train = [group for place, group in enumerate(groups) if place not in places]
    return train, [groups[place] for place in sorted(places)]


def extract_features(model: str, library: Library, parts: Sequence[str], folder: str | Path, output: Path) -> Path:
    """The file with features of the images of these parts: the mean of a model's pooled features over ten crops.

    A file with the same features is reused, and an interrupted extraction is resumed.
    """
    photographs = ImageFolder(folder)
    files = dict[int, Path]()
    for (_, number), name in part_images(library, parts).items():
        files[number] = photographs.find(name) or photographs.folder / name
    output.parent.mkdir(parents=True, exist_ok=True)
    encode_once(load_model(model), output, images=files.items(), encoding=Encoding(batch_size=8, ten_crops=TenCrops()))
    return output


def character_tokenizer(texts: Iterable[str], max_length: int = 512) -> PreTrainedTokenizerFast:
    """A tokenizer of all characters in the texts, including capitals and punctuation."""
    known = sorted(set().union(*map(set, texts)))
    vocabulary = {token: place for place, token in enumerate([PADDING, UNKNOWN, *known])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PADDING,
        unk_token=UNKNOWN,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


class CoCaptions(Dataset[Row]):
    """Rows of several captions of an image, each caption once per epoch; an index is epoch, image and row.

    The order of an image's captions depends only on seed, epoch and image; captions of the first row fill up the last.
    """

    def __init__(
        self,
        groups: Sequence[CaptionGroup],
        tokenizer: AnyTokenizer,
        views: int,
        image_features: NDArray[np.float32] | None = None,
        seed: int = 0,
    ) -> None:
        if views < 1:
            raise InvalidOption(f"a row has {views} captions of an image; give at least 1")
        few = [group for group in groups if len(group.texts) < views]
        if few or not groups:
            reason = f"{len(few)} images have fewer, the first: {few[0].image_id}" if few else "there is no image"
            raise InvalidOption(f"a row needs {views} captions of an image, but {reason}. Use fewer captions per row")
        self.views = views
        self.image_features = image_features
        self.seed = seed
        ids = iter(token_ids(tokenizer, [text for group in groups for text in group.texts]))
        self.ids = [list(islice(ids, len(group.texts))) for group in groups]
        self.rows = [math.ceil(len(captions) / views) for captions in self.ids]

    def __len__(self) -> int:
        return sum(self.rows)

    def __getitem__(self, draw: Draw) -> Row:
        epoch, image, number = draw
        ids = self.ids[image]
        order = np.random.default_rng([self.seed, epoch, image]).permutation(len(ids)).tolist()
        # The first row's captions follow past the end; an image has enough captions that none repeats in a row.
        places = (order + order)[number * self.views : (number + 1) * self.views]
        row: Row = {"input_ids": [ids[place] for place in places]}
        return row if self.image_features is None else row | {"image_features": self.image_features[image]}


def collate(rows: Sequence[Row]) -> dict[str, torch.Tensor]:
    """Rows padded on the right: ``input_ids`` and ``attention_mask`` (N, V, T), ``image_features`` (N, F) if any."""
    longest = max(len(ids) for row in rows for ids in row["input_ids"])
    shape = len(rows), len(rows[0]["input_ids"]), longest
    input_ids = torch.zeros(shape, dtype=torch.int64)
    mask = torch.zeros(shape, dtype=torch.int64)
    for place, row in enumerate(rows):
        for view, ids in enumerate(row["input_ids"]):
            input_ids[place, view, : len(ids)] = torch.tensor(ids)
            mask[place, view, : len(ids)] = 1
    batch = {"input_ids": input_ids, "attention_mask": mask}
    if "image_features" in rows[0]:
        batch["image_features"] = torch.from_numpy(np.stack([row["image_features"] for row in rows]))
    return batch


class SharedBatches(Sampler[list[Draw]]):
    """The batches of an epoch, with every row of every image once; each process yields its part.

    As in the paper's code, each round has one row of every image, so no batch has an image twice. A single last image
    of a round joins the previous batch, since it would have no negative. Batches depend only on seed and epoch, except
    that the last one of a round is cut to a multiple of the processes.
    """

    def __init__(self, rows: Sequence[int], size: int, seed: int = 0, *, rank: int = 0, processes: int = 1) -> None:
        if size < 2 or size % processes:
            raise InvalidOption(
                f"a batch has {size} images for {processes} processes; give at least two images, and a multiple of the "
                "processes"
            )
        counts = torch.tensor(rows, dtype=torch.int64)
        self._rounds = [(counts > row).nonzero().flatten() for row in range(max(rows, default=0))]
        self.size = size
        self.seed = seed
        self.epoch = 0
        self.rank = rank
        self.processes = processes
        if not len(self):
            raise InvalidOption(f"{len(rows)} images are too few for a batch on {processes} processes; train on more")

    def __len__(self) -> int:
        return sum(self._share(count) > 0 for images in self._rounds for count in self._sizes(len(images)))

    def __iter__(self) -> Iterator[list[Draw]]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        for row, images in enumerate(self._rounds):
            order = images[torch.randperm(len(images), generator=generator)]
            for batch in order.split(self._sizes(len(images))):
                share = self._share(len(batch))
                part = batch[self.rank * share : (self.rank + 1) * share]
                if share:
                    yield [(self.epoch, image, row) for image in part.tolist()]

    def _sizes(self, images: int) -> list[int]:
        """Images of each batch of a round, over all processes."""
        full, left = divmod(images, self.size)
        sizes = [self.size] * full + [left] * (left > 0)
        return [*sizes[:-2], sizes[-2] + 1] if left == 1 and full else sizes

    def _share(self, images: int) -> int:
        """Images of a batch for each process; 0 if the batch would have fewer than two."""
        share = images // self.processes
        return share if share * self.processes > 1 else 0


class HeldOut:
    """Measures R@1, R@5 and R@10 on held-out images; the mean of R@10 over the directions selects snapshots."""

    def __init__(
        self,
        groups: Sequence[CaptionGroup],
        tokenizer: AnyTokenizer,
        features: ImageFeatures | None = None,
    ) -> None:
        self.texts = [text for group in groups for text in group.texts]
        token_ids(tokenizer, self.texts, "held-out captions")
        self.owners = np.repeat(np.arange(len(groups)), [len(group.texts) for group in groups])
        self.directions = ("t2t",) if features is None else ("i2t", "t2i")
        self.tokenizer = tokenizer
        self.features = features
        self.image_ids = np.array([group.image_id for group in groups], dtype=np.int64)

    def __call__(self, model: AnyModel) -> dict[str, float]:
        """Name to value, as fractions."""
        encoder = text_encoder(model, processor=self.tokenizer, batch_size=256)
        images = None
        if self.features is not None:
            images = Embeddings(np.arange(self.image_ids.size), self.features.encode(model, self.image_ids))
        run = EmbeddingsRun(images, Embeddings(np.arange(len(self.texts)), encoder(self.texts)))
        recalls = held_out_recalls(run, self.owners, self.directions, depths=[1, 5, 10])
        selection = float(np.mean([recalls[f"{direction}/recall_at_10"] for direction in self.directions]))
        return {SELECTION: selection, **recalls}
