"""Training pairs, which each epoch draws anew, and the positives within a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch.utils.data import Dataset, Sampler

from cxc_eccv.errors import InvalidOption
from cxc_eccv.judgments.qrels import merged_qrels
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.caption_groups import CaptionGroup
from cxc_eccv.types import IntArray, Judgments, positions_of


class TrainingPairs(Dataset[dict[str, Any]]):
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
        self.groups, self.tokens, self.image_paths = list(groups), list(tokens), image_paths
        self.draws = 2 if co_captions else 1
        self.seed = seed
        self.starts = np.cumsum([0, *(len(group.texts) for group in self.groups)])
        self._check()

    def _check(self) -> None:
        if not self.groups or len(self.tokens) != self.starts[-1]:
            raise InvalidOption(f"{len(self.tokens)} tokenised captions for {self.starts[-1]} captions: give all")
        if self.image_paths is not None and len(self.image_paths) != len(self.groups):
            raise InvalidOption(f"{len(self.image_paths)} image files for {len(self.groups)} images: give all")
        few = [group for group in self.groups if len(group.texts) < self.draws]
        if few:
            first = f"image {few[0].image_id} of {few[0].collection} has {len(few[0].texts)} caption(s)"
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
        tokens = [ids for row in rows for ids in self.tokens[self.starts[row] : self.starts[row + 1]]]
        return type(self)(
            [self.groups[row] for row in rows],
            tokens,
            co_captions=self.draws == 2,
            image_paths=None if self.image_paths is None else [self.image_paths[row] for row in rows],
            seed=self.seed,
        )

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, draw: tuple[int, ...]) -> dict[str, Any]:
        _, index, *other = draw
        random = np.random.default_rng([self.seed, *draw])
        chosen = random.choice(len(self.groups[index].texts), self.draws, replace=False) + self.starts[index]
        chosen[: len(other)] = other
        item: dict[str, Any] = {"texts": [self.tokens[position] for position in chosen]}
        item |= {"text_index": chosen.tolist(), "image_index": index}
        if self.image_paths is not None:
            item["image_path"] = self.image_paths[index]
        return item


class EpochSampler(Sampler[tuple[int, int]]):
    """All images in the order of an epoch, which depends only on seed and epoch, so that a run can resume."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.count, self.seed, self.epoch = count, seed, 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[int, int]]:
        generator = torch.Generator().manual_seed(self.seed + 1_000_003 * self.epoch)
        for index in torch.randperm(self.count, generator=generator).tolist():
            yield self.epoch, index


@dataclass(frozen=True, slots=True)
class BatchPositives:
    """The positives of a batch: the items of a pair, and those of judgments.

    Each method gives (K, N) bool from positions among all training captions or images; ``offset`` is the column of the
    first row's pair.
    """

    text_text: csr_matrix | None = None
    image_text: csr_matrix | None = None

    @classmethod
    def judged(cls, library: Library, split: str, groups: Sequence[CaptionGroup]) -> BatchPositives:
        """Positives of the task ``cxc`` in a split; groups of other collections and splits match only themselves."""
        of_coco = [(group, group.collection == "coco") for group in groups]
        images = np.array([group.image_id if is_coco else -1 for group, is_coco in of_coco])
        texts = np.array([number if is_coco else -1 for group, is_coco in of_coco for number in group.caption_ids])
        text_text = _matrix(merged_qrels(library, split, "t2t"), texts, texts)
        return cls(text_text.maximum(text_text.T), _matrix(merged_qrels(library, split, "i2t"), images, texts))

    @classmethod
    def described(cls, groups: Sequence[CaptionGroup], weak: csr_matrix) -> BatchPositives:
        """Captions of each image, by origin or an (I, T) matrix of weak positives, and captions that share an image."""
        sizes = [len(group.texts) for group in groups]
        count, owners = sum(sizes), np.repeat(np.arange(len(groups)), sizes)
        written = csr_matrix((np.ones(count, dtype=bool), (owners, np.arange(count))), shape=weak.shape)
        image_text = written.maximum(weak)
        text_text = csr_matrix(written.T @ image_text)
        return cls(text_text.maximum(text_text.T), image_text)

    def united(self, other: BatchPositives) -> BatchPositives:
        """The positives of either of two."""
        return BatchPositives(
            *(
                mine if theirs is None else theirs if mine is None else mine.maximum(theirs)
                for mine, theirs in ((self.text_text, other.text_text), (self.image_text, other.image_text))
            )
        )

    def texts(self, rows: torch.Tensor, columns: torch.Tensor, *, offset: int) -> torch.Tensor:
        """(K, N) whether captions match."""
        return _block(self.text_text, rows, columns, offset)

    def images_texts(self, rows: torch.Tensor, columns: torch.Tensor, *, offset: int) -> torch.Tensor:
        """(K, N) whether images (rows) and captions match."""
        return _block(self.image_text, rows, columns, offset)

    def texts_images(self, rows: torch.Tensor, columns: torch.Tensor, *, offset: int) -> torch.Tensor:
        """(K, N) whether captions and images (columns) match."""
        # Selects images first, since transposing the whole matrix is slow.
        matrix = None if self.image_text is None else self.image_text[columns.cpu().numpy()].T.tocsr()
        return _block(matrix, rows, torch.arange(len(columns)), offset)


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
    places, known = positions_of(ids, known_ids)
    rows = np.flatnonzero(known)
    ones = np.ones(rows.size, dtype=bool)
    return csr_matrix((ones, (rows, places[rows])), shape=(ids.size, known_ids.size))


def _block(matrix: csr_matrix | None, rows: torch.Tensor, columns: torch.Tensor, offset: int) -> torch.Tensor:
    """(rows, columns) block of the matrix, with True for the pairs of the batch."""
    block = torch.zeros(len(rows), len(columns), dtype=torch.bool)
    if matrix is not None:
        block |= torch.from_numpy(matrix[rows.cpu().numpy()][:, columns.cpu().numpy()].toarray())
    pairs = torch.arange(len(rows))
    block[pairs, pairs + offset] = True
    return block.to(rows.device)
