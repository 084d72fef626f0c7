"""For the embedded sample: small backbones, and pictures and captions with exchanged colours.

A picture still matches its caption if a colour is exchanged in both, or if the picture is mirrored and left and right
are exchanged in the caption. So a model learns shapes and colours independently from a hundred drawings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset
from transformers import BitConfig, BitModel, ConvNextImageProcessorPil

from cxc_eccv.encoding.images import open_picture
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.dual_encoder.data import TrainingPairs
from cxc_eccv.studies.trainers.enhanced import Row
from cxc_eccv.studies.trainers.sample_encoders import small_bert, word_tokenizer
from cxc_eccv.studies.trainers.tokens import AnyTokenizer, token_ids


def make_text_backbone() -> tuple[Any, Any]:
    """A BERT of one layer with the words of the sample's train split, and its tokenizer."""
    tokenizer = word_tokenizer(Library(SAMPLE).split("train").captions["text"].to_pylist())
    return small_bert(tokenizer, hidden_size=128, layers=1), tokenizer


def make_image_backbone() -> tuple[Any, Any]:
    """A ResNet of three stages with group normalisation, and its processor."""
    config = BitConfig(embedding_size=32, hidden_sizes=[96, 192, 256], depths=[1, 1, 1], num_groups=8)
    return BitModel(config), ConvNextImageProcessorPil(size={"shortest_edge": 64}, crop_pct=1.0)


COLOURS = {
    "red": (208, 52, 58),
    "orange": (242, 140, 40),
    "yellow": (248, 208, 56),
    "green": (62, 152, 84),
    "blue": (48, 108, 196),
    "purple": (126, 74, 164),
    "pink": (244, 150, 186),
    "black": (46, 48, 60),
    "cream": (250, 236, 196),
    "grey": (190, 192, 196),
    "mint": (172, 234, 206),
    "lilac": (214, 198, 244),
}
"""Colours of the sample's shapes, then of its backgrounds."""

SHAPES = 8
"""The number of colours of shapes; colours of shapes and of backgrounds are exchanged separately."""

NEAR = 43
"""Pixels farther than this from all colours, such as edges, are not changed."""

FARTHEST = 5
"""The largest shift of a picture in pixels."""

MIRRORED = {"left": "right", "right": "left"}
VALUES = np.array(list(COLOURS.values()), dtype=np.int64)


class RecolouredPairs(Dataset[Row]):
    """Augmented training pairs of the embedded sample; the draw depends only on seed, epoch and image."""

    def __init__(self, pairs: TrainingPairs, tokenizer: AnyTokenizer) -> None:
        self.pairs = pairs
        self.groups = pairs.groups
        self._tokenizer = tokenizer
        self._texts = [text for group in pairs.groups for text in group.texts]
        self._pictures: dict[int, tuple[NDArray[np.uint8], NDArray[np.int64]]] = {}

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, draw: tuple[int, ...]) -> Row:
        item = self.pairs[draw]
        random = np.random.default_rng([self.pairs.seed, *draw, 1])
        order = np.concatenate([random.permutation(SHAPES), SHAPES + random.permutation(len(COLOURS) - SHAPES)])
        mirror = bool(random.integers(2))
        shift = random.integers(-FARTHEST, FARTHEST + 1, size=2)
        names = list(COLOURS)
        words = {name: names[new] for name, new in zip(names, order.tolist(), strict=True)}
        texts = [reword(self._texts[position], words | (MIRRORED if mirror else {})) for position in item["text_index"]]
        pixels = recolour(*self._picture(item), order)
        image = Image.fromarray(_move(pixels[:, ::-1] if mirror else pixels, *shift.tolist()))
        return item | {"texts": token_ids(self._tokenizer, texts), "image": image}

    def _picture(self, item: Row) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        index = item["image_index"]
        if index not in self._pictures:
            pixels = np.asarray(open_picture(item["image_path"]).image)
            self._pictures[index] = pixels, nearest_colours(pixels)
        return self._pictures[index]


def nearest_colours(pixels: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(H, W) index in :data:`COLOURS` of each of (H, W, 3) RGB pixels; -1 for other colours."""
    distances = np.linalg.norm(pixels[:, :, None].astype(np.float64) - VALUES, axis=-1)
    return np.where(distances.min(axis=-1) < NEAR, distances.argmin(axis=-1), -1)


def recolour(pixels: NDArray[np.uint8], colours: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.uint8]:
    """(H, W, 3) the picture with colour ``i`` of :data:`COLOURS` replaced by colour ``order[i]``."""
    changes = np.concatenate([VALUES[order] - VALUES, [[0, 0, 0]]])
    return np.asarray(np.clip(pixels + changes[colours], 0, 255).astype(np.uint8))


def reword(text: str, words: Mapping[str, str]) -> str:
    """The text with words replaced, capitals kept, and the right ``a`` or ``an``."""

    def exchange(match: re.Match[str]) -> str:
        word = words.get(match[0].lower(), match[0].lower())
        return word.capitalize() if match[0][0].isupper() else word

    text = re.sub(r"[A-Za-z]+", exchange, text)
    text = re.sub(r"\b([Aa])n (?=[^aeiou])", r"\1 ", text)
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)


def _move(pixels: NDArray[np.uint8], across: int, down: int) -> NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    rows, columns = (np.clip(np.arange(size) - step, 0, size - 1) for size, step in ((height, down), (width, across)))
    return np.ascontiguousarray(pixels[rows][:, columns])
