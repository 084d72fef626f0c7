"""The training data of a run: pairs that each epoch draws anew, their tokens and images, and batches of them.

Of the embedded sample a picture still matches its caption if a colour is exchanged in both, or if the picture is
mirrored and left and right are exchanged in the caption. So a model learns shapes and colours independently from a
hundred drawings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset, Sampler

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.encoding.images import open_picture
from cxc_eccv.errors import InvalidOption, MalformedSource, TowerMissing
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.reading import read_lines
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup, caption_groups, part_images
from cxc_eccv.studies.trainers.enhanced import Row
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.studies.trainers.tokens import AnyTokenizer, Processing, token_ids
from cxc_eccv.types import IntArray


class TrainingPairs(Dataset[Row]):
    """One item per image and epoch, so that two captions of an image are never negatives of each other.

    An index is epoch and image; the draw depends only on it and the seed. An optional third number is the position of a
    caption of another image, which replaces the first caption.
    """

    def __init__(
        self,
        groups: Sequence[CaptionGroup],
        tokens: Sequence[list[int]],
        *,
        co_captions: bool,
        image_paths: Sequence[Path] | None = None,
        seed: int = 0,
    ) -> None:
        self.groups = list(groups)
        self.image_paths = image_paths
        # One array: workers that read lists would each copy them, as reading counts references.
        self.tokens = pa.array(tokens, pa.list_(pa.int32()))
        self.draws = 2 if co_captions else 1
        self.seed = seed
        self.starts = np.cumsum([0, *(len(group.texts) for group in self.groups)])
        few = [group for group in self.groups if len(group.texts) < self.draws]
        if few:
            first = f"image {few[0].image_id} of {few[0].photographs} has {len(few[0].texts)} caption(s)"
            raise InvalidOption(f"{first}; text-text pairs need two. Leave out these {len(few)} images")

    def hold_out(self, count: int) -> tuple[Self, Self]:
        """Pairs to train on, and those of ``count`` other random images."""
        if not 0 < count < len(self):
            raise InvalidOption(
                f"held_out={count} of {len(self)} images: hold out at least one, and keep one to train on"
            )
        drawn = np.zeros(len(self), dtype=bool)
        drawn[np.random.default_rng(self.seed).choice(len(self), count, replace=False)] = True
        return self._part(np.flatnonzero(~drawn)), self._part(np.flatnonzero(drawn))

    def _part(self, rows: IntArray) -> Self:
        captions = np.concatenate([np.arange(self.starts[row], self.starts[row + 1]) for row in rows])
        return type(self)(
            [self.groups[row] for row in rows],
            self.tokens.take(pa.array(captions)).to_pylist(),
            co_captions=self.draws == 2,
            image_paths=None if self.image_paths is None else [self.image_paths[row] for row in rows],
            seed=self.seed,
        )

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, draw: tuple[int, ...]) -> Row:
        _, index, *other = draw
        random = np.random.default_rng([self.seed, *draw])
        start, end = self.starts[index : index + 2]
        chosen = random.choice(end - start, self.draws, replace=False) + start
        chosen[: len(other)] = other
        item: Row = {"texts": [self.tokens[position].as_py() for position in chosen.tolist()]}
        item |= {"text_index": chosen.tolist(), "image_index": index}
        if self.image_paths is not None:
            item["image_path"] = self.image_paths[index]
        return item


class EpochSampler(Sampler[tuple[int, int]]):
    """All images in the order of an epoch, which depends only on seed and epoch, so that a run can resume."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.count = count
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[int, int]]:
        generator = torch.Generator().manual_seed(self.seed + 1_000_003 * self.epoch)
        for index in torch.randperm(self.count, generator=generator).tolist():
            yield self.epoch, index


@dataclass(frozen=True, slots=True)
class PairReader:
    """Reads the training pairs of a mode; all modes except t2t need the folder of ``images`` or their ``features``."""

    processing: Processing
    mode: str
    images: str | None = None
    seed: int = 0
    features: ImageFeatures | None = None

    def read_parts(self, library: Library, names: Sequence[str]) -> TrainingPairs:
        """Pairs of parts named as for :func:`caption_groups`."""
        groups = caption_groups(library, names)
        if self.features is not None:
            groups = self.features.select(groups)
        if self.mode == "t2t" or self.features is not None:
            return self._tokenize(groups, None)
        files = part_images(library, names)
        return self._tokenize(groups, [files[group.photographs, group.image_id] for group in groups])

    def read_file(self, path: Path) -> TrainingPairs:
        """Pairs of lines of image file, tab, caption, as in Conceptual Captions, grouped by image file."""
        by_file: dict[str, list[str]] = {}
        for number, line in enumerate(read_lines(path), start=1):
            name, tab, text = line.partition("\t")
            if not (name and tab and text.strip()):
                raise MalformedSource(path, f"line {number}", repr(line[:60]), "an image file, a tab, a caption")
            by_file.setdefault(name, []).append(text)
        rows = enumerate(by_file.values())
        groups = [CaptionGroup("pairs", row, tuple(range(len(texts))), tuple(texts)) for row, texts in rows]
        return self._tokenize(groups, None if self.mode == "t2t" else list(by_file))

    def _tokenize(self, groups: Sequence[CaptionGroup], file_names: Sequence[str] | None) -> TrainingPairs:
        paths = None if file_names is None else image_paths(file_names, self.images)
        tokens = token_ids(find_tokenizer(self.processing), [text for group in groups for text in group.texts])
        return TrainingPairs(groups, tokens, co_captions="t2t" in self.mode, image_paths=paths, seed=self.seed)


def image_paths(file_names: Sequence[str], folder: str | None) -> list[Path]:
    """Paths of image files below a folder; ``sample`` is the folder of the embedded sample."""
    if folder is None:
        raise InvalidOption("training on images needs their folder: give it with --images")
    paths = ImageFolder(folder).find_all(file_names)
    return [paths[name] for name in file_names]


def find_tokenizer(processing: Any) -> Any:  # noqa: ANN401 - tokenizers share no type
    """A tokenizer, or that of a processor; TowerMissing without one."""
    tokenizer = getattr(processing, "tokenizer", processing)
    if not hasattr(tokenizer, "pad"):
        raise TowerMissing(f"{type(processing).__name__} has no tokenizer: the model has no text side")
    return tokenizer


def find_image_processor(processing: Any) -> Any:  # noqa: ANN401 - image processors share no type
    """The image processor of a processor; TowerMissing without one."""
    processor = getattr(processing, "image_processor", None)
    if processor is None:
        raise TowerMissing(f"{type(processing).__name__} has no image processor: the model has no image side")
    return processor


class LoadedItems(NamedTuple):
    """Items, and the pixels of their images if any."""

    items: Sequence[Row]
    pixel_values: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class PairCollator:
    """Pads captions, with the left ones of text pairs first, to ``length`` or to the longest, and loads images.

    ``image_features`` (images, F) of all training images stand in their place.
    """

    tokenizer: Any
    image_processor: Any = None
    length: int | None = None
    image_features: NDArray[np.float32] | None = None

    def __call__(self, items: Sequence[Row]) -> dict[str, torch.Tensor]:
        """The batch; the error for a missing, broken or 16-bit image names its file."""
        return self.collate([self.load(items)])

    def load(self, items: Sequence[Row]) -> LoadedItems:
        """Some items of a batch, with the pixels of their images."""
        if "image_path" not in items[0]:
            return LoadedItems(items, None)
        images = [item["image"] if "image" in item else open_picture(item["image_path"]).image for item in items]
        bare = [{name: value for name, value in item.items() if name != "image"} for item in items]
        return LoadedItems(bare, self.image_processor(images, return_tensors="pt")["pixel_values"])

    def collate(self, parts: Sequence[LoadedItems]) -> dict[str, torch.Tensor]:
        """Make the batch of items that were loaded in parts."""
        items = [item for part in parts for item in part.items]
        sides = range(len(items[0]["texts"]))
        captions = [{"input_ids": item["texts"][side]} for side in sides for item in items]
        padding = "longest" if self.length is None else "max_length"
        batch: dict[str, torch.Tensor] = dict(
            self.tokenizer.pad(captions, padding=padding, max_length=self.length, return_tensors="pt")
        )
        batch["text_index"] = torch.tensor([item["text_index"][side] for side in sides for item in items])
        batch["image_index"] = torch.tensor([item["image_index"] for item in items])
        if self.image_features is not None:
            batch["image_features"] = torch.from_numpy(self.image_features[batch["image_index"].numpy()])
        pixels = [part.pixel_values for part in parts if part.pixel_values is not None]
        return {**batch, "pixel_values": torch.cat(pixels)} if pixels else batch


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
