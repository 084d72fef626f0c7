"""The training data of a dual encoder: pairs that each epoch draws anew, their batches, and further positives."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch.utils.data import Dataset, Sampler

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.encoding import Encoding, encode
from cxc_eccv.encoding.images import open_picture
from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.evaluation import evaluate
from cxc_eccv.judgments.merging import merged_qrels
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.collections.collection import find_collection
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import MinedPairs
from cxc_eccv.sources.reading import read_lines
from cxc_eccv.studies.trainers.caption_groups import (
    ALL,
    CaptionGroup,
    caption_groups,
    held_out_recalls,
    part_images,
    parts_of,
)
from cxc_eccv.studies.trainers.enhanced import Row, WeakBatches
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.studies.trainers.tokens import Processing, find_tokenizer, token_ids
from cxc_eccv.studies.trainers.trainer import AnyModel
from cxc_eccv.types import Embeddings, IntArray, Judgments, find_positions


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


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores a model in training on splits of COCO and on held-out pairs.

    A model without an image tower has no folder of ``images``; the vectors of its images, if any, are ``features``. The
    mean R@10 over the ``directions`` that are trained selects the checkpoint.
    """

    library: Library
    processing: Processing
    directions: Sequence[str]
    images: str | None
    features: ImageFeatures | None = None

    def report(self, model: AnyModel, split: str) -> Report:
        """The report of a model on a split."""
        run = self._encode_split(model, split)
        return evaluate(run, split=split, data_dir=self.library, per_query=True, progress=False)

    def measure_validation(self, model: AnyModel) -> dict[str, float]:
        """Report keys to values on the validation split, and ``recall_at_10``."""
        run = self._encode_split(model, "validation")
        has_images = "i2t" in self.directions
        tasks = ["cxc/i2t", "cxc/t2i", "cxc/t2t", "cxc/sts", "cxc/sits"] if has_images else ["cxc/t2t", "cxc/sts"]
        report = evaluate(run, tasks, split="validation", data_dir=self.library, confidence=None, progress=False)
        trained = [report.scores[f"cxc/{direction}/recall_at_10"] for direction in self.directions]
        return {**report.scores, "recall_at_10": sum(trained) / len(trained)}

    def measure_held_out(self, held: TrainingPairs, model: AnyModel) -> dict[str, float]:
        """R@10 on held-out images of every direction, and ``recall_at_10``."""
        texts = [text for group in held.groups for text in group.texts]
        owners = np.repeat(np.arange(len(held)), np.diff(held.starts))
        images = None if held.image_paths is None else enumerate(held.image_paths)
        run = self._encode(model, images, list(enumerate(texts)))
        if self.features is not None:
            run = replace(run, images=Embeddings(np.arange(len(held)), self.features.of(held.groups)))
        recalls = held_out_recalls(run, owners, self.directions, depths=[10])
        measures = {f"held_out/{name}": recall for name, recall in recalls.items()}
        return {**measures, "recall_at_10": sum(recalls.values()) / len(recalls)}

    def _encode_split(self, model: AnyModel, split: str) -> EmbeddingsRun:
        """All captions of a split of COCO, and all its images if the model has an image side."""
        content = self.library.split(split)
        files = None
        if self.images is not None:
            paths = image_paths(content.images["file_name"].to_pylist(), self.images)
            files = zip(content.image_ids.tolist(), paths, strict=True)
        run = self._encode(model, files, content.captions)
        if self.features is None:
            return run
        return replace(run, images=Embeddings(content.image_ids, self.features.of_ids(content.image_ids)))

    def _encode(self, model: AnyModel, images: Any, captions: Any) -> EmbeddingsRun:  # noqa: ANN401 - as encode says
        encoding = Encoding(batch_size=128)
        return encode(
            model, images=images, captions=captions, processor=self.processing, encoding=encoding, progress=False
        )


@dataclass(frozen=True, slots=True)
class BatchPositives:
    """The positives of a batch: the items of a pair, and those of judgments.

    ``mark`` takes positions among all training captions or images; ``offset`` is the column of the first row's pair.
    """

    text_text: csr_matrix | None = None
    image_text: csr_matrix | None = None

    @classmethod
    def judged(cls, library: Library, split: str, groups: Sequence[CaptionGroup]) -> BatchPositives:
        """Positives of the task ``cxc`` in a split; groups of other collections and splits match only themselves."""
        judged = library.split(split)
        inside = [(group, group.photographs == judged.collection.photographs) for group in groups]
        images = np.array([group.image_id if is_inside else -1 for group, is_inside in inside])
        texts = np.array([number if is_inside else -1 for group, is_inside in inside for number in group.caption_ids])
        text_text = _matrix(merged_qrels(judged, "t2t"), texts, texts)
        return cls(text_text.maximum(text_text.T), _matrix(merged_qrels(judged, "i2t"), images, texts))

    @classmethod
    def described(cls, groups: Sequence[CaptionGroup], weak: csr_matrix) -> BatchPositives:
        """Captions of each image, by origin or an (I, T) matrix of weak positives, and captions that share an image."""
        sizes = [len(group.texts) for group in groups]
        count = sum(sizes)
        owners = np.repeat(np.arange(len(groups)), sizes)
        written = csr_matrix((np.ones(count, dtype=bool), (owners, np.arange(count))), shape=weak.shape)
        image_text = written.maximum(weak)
        text_text = csr_matrix(written.T @ image_text)
        return cls(text_text.maximum(text_text.T), image_text)

    @property
    def has_pairs(self) -> bool:
        """Whether any two items match."""
        return any(matrix is not None and matrix.nnz for matrix in (self.text_text, self.image_text))

    def united(self, other: BatchPositives) -> BatchPositives:
        """The positives of either of two."""
        return BatchPositives(
            *(
                mine if theirs is None else theirs if mine is None else mine.maximum(theirs)
                for mine, theirs in ((self.text_text, other.text_text), (self.image_text, other.image_text))
            )
        )

    def mark(self, direction: str, rows: torch.Tensor, columns: torch.Tensor, *, offset: int) -> torch.Tensor:
        """(K, N) whether queries (rows) and items (columns) match, in the direction ``i2t``, ``t2i`` or ``t2t``."""
        marks = torch.zeros(len(rows), len(columns), dtype=torch.bool)
        queries = rows.cpu().numpy()
        items = columns.cpu().numpy()
        if direction == "t2t" and self.text_text is not None:
            marks |= torch.from_numpy(self.text_text[queries][:, items].toarray())
        elif direction == "i2t" and self.image_text is not None:
            marks |= torch.from_numpy(self.image_text[queries][:, items].toarray())
        elif direction == "t2i" and self.image_text is not None:
            marks |= torch.from_numpy(self.image_text[items][:, queries].toarray().T)
        pairs = torch.arange(len(rows))
        marks[pairs, pairs + offset] = True
        return marks.to(rows.device)


def _matrix(judgments: Judgments, rows: IntArray, columns: IntArray) -> csr_matrix:
    """The judgments between training items."""
    matrix = csr_matrix(
        (np.ones(judgments.indices.size, dtype=bool), judgments.indices, judgments.indptr),
        shape=(judgments.query_ids.size, judgments.gallery_ids.size),
    )
    chosen = _picks(rows, judgments.query_ids) @ matrix @ _picks(columns, judgments.gallery_ids).T
    return csr_matrix(chosen).astype(bool)


def _picks(ids: IntArray, known_ids: IntArray) -> csr_matrix:
    """(ids, known ids) whether they are equal."""
    places, known = find_positions(ids, known_ids)
    rows = np.flatnonzero(known)
    ones = np.ones(rows.size, dtype=bool)
    return csr_matrix((ones, (rows, places[rows])), shape=(ids.size, known_ids.size))


@dataclass(frozen=True, slots=True)
class WeakPositives:
    """Weak positives among training images and captions, as an (I, T) bool matrix over the groups."""

    matrix: csr_matrix
    groups: Sequence[CaptionGroup]

    @classmethod
    def read(
        cls, library: Library, names: Sequence[str], groups: Sequence[CaptionGroup], *, files: int
    ) -> WeakPositives:
        """Read the mined pairs of these parts, so many files; a warning counts pairs outside the training data."""
        mined = read_mined(library, names)
        if len(mined) < files:
            raise InvalidOption(
                f"--train-on {' '.join(names)}: only {len(mined)} of {files} files of weak positives are of these "
                "parts. Mine these parts, or leave out the other files"
            )
        sizes = [len(group.texts) for group in groups]
        places = [_find(each, groups, sizes) for each in mined]
        rows, columns, known = (np.concatenate(column) for column in zip(*places, strict=True))
        if not known.all():
            warnings.warn(
                f"{int((~known).sum())} of {len(known)} weak positives have an image or a caption outside the training "
                "data and are left out",
                stacklevel=2,
            )
        is_own = np.repeat(np.arange(len(groups)), sizes)[columns] == rows
        rows = rows[known & ~is_own]
        columns = columns[known & ~is_own]
        if np.unique(rows).size < 2:
            raise InvalidOption(
                f"only {np.unique(rows).size} training images have weak positives, and a batch needs two. Mine with a "
                "larger --top-k or a lower threshold"
            )
        matrix = csr_matrix((np.ones(rows.size, dtype=bool), (rows, columns)), shape=(len(groups), sum(sizes)))
        return cls(matrix, groups)

    def make_batches(
        self,
        dataset: Any,  # noqa: ANN401 - training pairs, plain or recoloured
        collate: PairCollator,
        *,
        use: str,
        alpha: float,
        size: int,
        seed: int,
    ) -> WeakBatches | None:
        """Batches of weak positives for a use of ``--weak-positives-as``, if it has any; ``alpha`` may weight them."""
        if use == "multi_positive" or not alpha:
            return None

        def load(pairs: list[tuple[int, int]], step: int) -> LoadedItems:
            return collate.load([dataset[step, image, text] for image, text in pairs])

        def join(parts: list[LoadedItems]) -> Row:
            batch: Row = collate.collate(parts)
            return batch | {"weight": alpha} if use == "weight" else batch

        captions = np.split(self.matrix.indices, self.matrix.indptr[1:-1])
        return WeakBatches(dict(enumerate(captions)), load, join, size=size, seed=seed)


def read_mined(library: Library, names: Sequence[str]) -> list[MinedPairs]:
    """The mined pairs that the library was opened with, of parts such as ``coco/train``."""
    mined = [library.split(split, name).mined() for name, split in parts_of(names) if split != ALL]
    return [pairs for pairs in mined if pairs is not None]


def _find(
    mined: MinedPairs, groups: Sequence[CaptionGroup], sizes: Sequence[int]
) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
    """(P,) indices of the images and of the captions among those of the groups, and whether both are among them."""
    photographs = find_collection(mined.collection).photographs
    inside = [group.photographs == photographs for group in groups]
    images = np.where(inside, [group.image_id for group in groups], -1)
    texts = np.where(np.repeat(inside, sizes), [number for group in groups for number in group.caption_ids], -1)
    rows, has_image = find_positions(mined.table["image_id"].to_numpy(), images)
    columns, has_text = find_positions(mined.table["caption_id"].to_numpy(), texts)
    return rows, columns, has_image & has_text
