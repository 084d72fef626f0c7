"""Which items of a batch match: each pair itself, and what the merged judgments call positive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix

from cxc_eccv.baselines.caption_groups import CaptionGroup
from cxc_eccv.judgments.qrels import merged_qrels
from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray, Judgments, positions_of

__all__ = ["BatchPositives"]


@dataclass(frozen=True, slots=True)
class BatchPositives:
    """Positives between items of a batch.

    Attributes:
        text_text: (T, T) symmetric bool matrix over all training captions, or None.
        image_text: (I, T) bool matrix over all training images and captions, or None.

    Example:
        >>> rows, columns = torch.tensor([4, 9]), torch.tensor([7, 8])
        >>> BatchPositives().texts(rows, columns, offset=0).tolist()
        [[True, False], [False, True]]
    """

    text_text: csr_matrix | None = None
    image_text: csr_matrix | None = None

    @classmethod
    def judged(cls, library: Library, split: str, groups: Sequence[CaptionGroup]) -> BatchPositives:
        """Positives of task ``cxc``: original links, and pairs rated similar.

        Args:
            library: the raw sources.
            split: ``validation`` or ``test``, whose judgments to use.
            groups: the training data; groups of other collections and splits match only themselves.
        """
        coco = [group if group.collection == "coco" else None for group in groups]
        images = np.array([-1 if group is None else group.image_id for group in coco])
        texts = np.array([-1 if one is None else one for group in groups for one in _ids(group)])
        text_text = _matrix(merged_qrels(library, split, "t2t"), texts, texts)
        return cls(text_text.maximum(text_text.T), _matrix(merged_qrels(library, split, "i2t"), images, texts))

    def texts(self, rows: torch.Tensor, columns: torch.Tensor, *, offset: int) -> torch.Tensor:
        """(K, N) bool: which captions match which.

        Args:
            rows: (K,) positions among all training captions.
            columns: (N,) positions among them.
            offset: column of the first row's own pair.
        """
        return _block(self.text_text, rows, columns, offset)

    def images_texts(self, rows: torch.Tensor, columns: torch.Tensor, *, offset: int) -> torch.Tensor:
        """(K, N) bool: which captions match which images; rows are positions among all training images."""
        return _block(self.image_text, rows, columns, offset)

    def texts_images(self, rows: torch.Tensor, columns: torch.Tensor, *, offset: int) -> torch.Tensor:
        """(K, N) bool: which images match which captions; columns are positions among all training images."""
        return _block(None if self.image_text is None else self.image_text.T.tocsr(), rows, columns, offset)


def _ids(group: CaptionGroup) -> Sequence[int | None]:
    return group.caption_ids if group.collection == "coco" else [None] * len(group.caption_ids)


def _matrix(judgments: Judgments, rows: IntArray, columns: IntArray) -> csr_matrix:
    """The judgments between training items; what is judged outside these is left out."""
    matrix = csr_matrix(
        (np.ones(judgments.indices.size, dtype=bool), judgments.indices, judgments.indptr),
        shape=(judgments.query_ids.size, judgments.gallery_ids.size),
    )
    picks = (_picked(rows, judgments.query_ids), _picked(columns, judgments.gallery_ids).T)
    return csr_matrix(picks[0] @ matrix @ picks[1]).astype(bool)


def _picked(ids: IntArray, known_ids: IntArray) -> csr_matrix:
    places, known = positions_of(ids, known_ids)
    found = np.flatnonzero(known)
    ones = np.ones(found.size, dtype=bool)
    return csr_matrix((ones, (found, places[found])), shape=(ids.size, known_ids.size))


def _block(matrix: csr_matrix | None, rows: torch.Tensor, columns: torch.Tensor, offset: int) -> torch.Tensor:
    block = torch.zeros(len(rows), len(columns), dtype=torch.bool)
    if matrix is not None:
        block |= torch.from_numpy(matrix[rows.cpu().numpy()][:, columns.cpu().numpy()].toarray())
    own = torch.arange(len(rows))
    block[own, own + offset] = True
    return block.to(rows.device)
