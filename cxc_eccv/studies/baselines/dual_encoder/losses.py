"""In-batch losses of dual encoders over a similarity matrix, and the positives of a batch, across processes.

Weak positives are extra batches or additional positives, and never negatives.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.errors import InvalidOption
from cxc_eccv.judgments.merging import merged_qrels
from cxc_eccv.sources.collections.collection import find_collection
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import MinedPairs
from cxc_eccv.studies.baselines.dual_encoder.arguments import DataArguments, ObjectiveArguments
from cxc_eccv.studies.baselines.dual_encoder.data import LoadedItems, PairCollator
from cxc_eccv.studies.trainers.caption_groups import ALL, CaptionGroup, parts_of
from cxc_eccv.studies.trainers.enhanced import Row, WeakBatches
from cxc_eccv.studies.trainers.gathering import gather
from cxc_eccv.training.contrastive import in_batch_softmax, mean_of_positives
from cxc_eccv.types import IntArray, Judgments, find_positions


def softmax_without_positive(similarities: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    r"""The CxC paper's loss as printed (arXiv 2004.15020, eq. 1), without positives in the denominator.

    :math:`L_i = -\frac{1}{|P_i|} \sum_{p \in P_i} S_{ip} + \log \sum_{j \notin P_i} e^{S_{ij}}`. It has no lower bound.
    Shapes are those of :func:`in_batch_softmax`; ignored items have a similarity of minus infinity, and a row with
    only these as negatives has a loss of 0. InvalidOption if a row has no negative, as in a batch of one pair.
    """
    if positives.all(1).any():
        raise InvalidOption("a row of the batch has no negative; use batches of at least two pairs")
    negatives = similarities.masked_fill(positives, float("-inf"))
    lonely = negatives.isneginf().all(1)
    losses = negatives.masked_fill(lonely[:, None], 0).logsumexp(1) - mean_of_positives(similarities, positives)
    return losses.masked_fill(lonely, 0)


def triplet_loss(similarities: torch.Tensor, positives: torch.Tensor, *, margin: float, negatives: str) -> torch.Tensor:
    r"""The hinge losses of the models in ECCV Caption's appendix D.2: (K,) means over the positives of each row.

    A positive p and a negative n of row i cost :math:`[m - S_{ip} + S_{in}]_+`. A positive's loss is the sum over
    ``all`` negatives (VSE0), the cost of the ``hardest``, the most similar one (VSE++, arXiv 1707.05612, eq. 6), or the
    cost of the most similar ``semi_hard`` one, which is less similar than the positive (arXiv 1503.03832, section 3.2),
    and 0 without any. Ignored items of the (K, N) similarities have minus infinity.
    """
    rows, columns = positives.nonzero(as_tuple=True)
    matched = similarities[rows, columns, None]
    others = similarities.masked_fill(positives, float("-inf"))[rows]
    if negatives == "semi_hard":
        others = others.masked_fill(others >= matched, float("-inf"))
    costs = (margin - matched + others).clamp(min=0)
    sums = costs.sum(1) if negatives == "all" else costs.amax(1)
    return torch.zeros_like(similarities[:, 0]).index_add(0, rows, sums) / positives.sum(1)


SOFTMAXES = {"softmax": in_batch_softmax, "paper": softmax_without_positive}
TRIPLETS = {"triplet_all": "all", "triplet_semi_hard": "semi_hard", "triplet_hardest": "hardest"}
"""Name on the command line to the loss of each row, or to the negatives of a triplet loss."""


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


class Items(NamedTuple):
    """(K, D) features of items of a batch, and their (K,) positions among all training captions or images."""

    features: torch.Tensor
    indices: torch.Tensor


MODES = {"t2t": ("t2t",), "i2t": ("i2t", "t2i"), "t2t+i2t": ("i2t", "t2i", "t2t")}
"""DE_T2T, DE_I2T and DE_T2T+I2T of the CxC paper, to the directions whose mean R@10 selects the best checkpoint."""


@dataclass(frozen=True, slots=True)
class Objective:
    """The loss to minimise (arXiv 2004.15020, eq. 2): ``i2t + t2i + c * t2t``, with ``text_weight`` c.

    The ``margin`` is in units of the unscaled dot product. ``ignored`` items are not used as negatives of each other,
    though they may not match.
    """

    mode: str = "t2t+i2t"
    loss: str = "paper"
    text_weight: float = 1.0
    margin: float = 0.2
    positives: BatchPositives = field(default_factory=BatchPositives)
    ignored: BatchPositives = field(default_factory=BatchPositives)

    def __post_init__(self) -> None:
        if not (self.margin > 0 and self.text_weight > 0):
            raise InvalidOption(f"margin={self.margin}, text_weight={self.text_weight}: give numbers above 0")

    @property
    def has_images(self) -> bool:
        """Whether it trains on pairs of images and captions."""
        return "i2t" in self.mode

    @property
    def has_text_pairs(self) -> bool:
        """Whether it trains on pairs of captions."""
        return "t2t" in self.mode

    def __call__(
        self,
        texts: torch.Tensor,
        images: torch.Tensor | None,
        scale: torch.Tensor,
        text_index: torch.Tensor,
        image_index: torch.Tensor,
    ) -> torch.Tensor:
        """Loss of this process's rows against the items of all processes; the mean over processes is the batch's loss.

        ``texts`` are (K, D) features, or (2 K, D) of pairs of captions, left ones first; ``images`` (K, D), or None.
        """
        count = len(image_index)
        total = texts.new_zeros((), dtype=torch.float32)
        left = Items(texts[:count], text_index[:count])
        if images is not None:
            pictures = Items(images, image_index)
            total = total + self._one_way("i2t", pictures, left, scale) + self._one_way("t2i", left, pictures, scale)
        if self.has_text_pairs:
            weight = self.text_weight if images is not None else 1.0
            right = Items(texts[count:], text_index[count:])
            both = self._one_way("t2t", left, right, scale) + self._one_way("t2t", right, left, scale)
            total = total + weight * both
        return total

    def _one_way(self, direction: str, queries: Items, items: Items, scale: torch.Tensor) -> torch.Tensor:
        """The loss of this process's queries against the items of all processes."""
        columns = gather(items.indices)
        offset = current_processes().rank * len(queries.indices)
        positives = self.positives.mark(direction, queries.indices, columns, offset=offset)
        ignored = self.ignored.mark(direction, queries.indices, columns, offset=offset) & ~positives
        return self.compare(queries.features, gather(items.features), scale, (positives, ignored))

    def compare(
        self,
        queries: torch.Tensor,
        items: torch.Tensor,
        scale: torch.Tensor,
        masks: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """Mean loss of (K, D) queries against (N, D) items, with (K, N) masks of positives and of ignored items."""
        positives, ignored = masks
        # Logits and their sums of exponentials need float32 even if features are bf16.
        similarities = queries.float() @ items.float().T
        if self.loss in SOFTMAXES:
            similarities = scale.float() * similarities
        similarities = similarities.masked_fill(ignored, float("-inf"))
        if self.loss in TRIPLETS:
            return triplet_loss(similarities, positives, margin=self.margin, negatives=TRIPLETS[self.loss]).mean()
        return SOFTMAXES[self.loss](similarities, positives).mean()


def check_weak_positives(objective: ObjectiveArguments, data: DataArguments) -> None:
    """Raise InvalidOption for options that do not go together, before anything is loaded."""
    if not 0 <= objective.alpha <= 1:
        raise InvalidOption(f"--alpha {objective.alpha}: give a weight from 0 to 1")
    if not data.weak_positives:
        plain = ObjectiveArguments()
        if (objective.weak_positives_as, objective.alpha) != (plain.weak_positives_as, plain.alpha):
            raise InvalidOption("--weak-positives-as and --alpha need --weak-positives: give files of weak positives")
        return
    if data.pairs_file is not None:
        raise InvalidOption("--weak-positives needs ids of captions, which --pairs-file lacks; use --train-on")
    if data.recolour and objective.weak_positives_as == "multi_positive":
        raise InvalidOption(
            "--recolour changes the colours of each pair independently, so a caption no longer describes another "
            "picture of its batch. Use --weak-positives-as extra_batch or weight"
        )


@dataclass(frozen=True, slots=True)
class WeakPositives:
    """Weak positives among training images and captions, as an (I, T) bool matrix over the groups, and their use."""

    matrix: csr_matrix
    groups: Sequence[CaptionGroup]
    use: str = "extra_batch"
    alpha: float = 0.3

    @classmethod
    def read(
        cls, library: Library, data: DataArguments, groups: Sequence[CaptionGroup], arguments: ObjectiveArguments
    ) -> WeakPositives:
        """Read the files that the library was opened with; a warning counts pairs outside the training data."""
        parts = [(name, split) for name, split in parts_of(data.train_on) if split != ALL]
        files = [mined for name, split in parts if (mined := library.split(split, name).mined()) is not None]
        if len(files) < len(data.weak_positives):
            raise InvalidOption(
                f"--train-on {' '.join(data.train_on)}: only {len(files)} of {len(data.weak_positives)} files of weak "
                "positives are of these parts. Mine these parts, or leave out the other files"
            )
        sizes = [len(group.texts) for group in groups]
        places = [_find(mined, groups, sizes) for mined in files]
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
        return cls(matrix, groups, arguments.weak_positives_as, arguments.alpha)

    def spare(self, objective: Objective) -> Objective:
        """The objective with weak positives as positives or ignored, so that they are no negatives."""
        described = BatchPositives.described(self.groups, self.matrix)
        if self.use == "multi_positive":
            return replace(objective, positives=objective.positives.united(described))
        return replace(objective, ignored=described)

    def batches(
        self,
        dataset: Any,  # noqa: ANN401 - training pairs, plain or recoloured
        collate: PairCollator,
        *,
        size: int,
        seed: int,
    ) -> Row:
        """Options of DualEncoderTrainer with batches of weak positives."""
        if self.use == "multi_positive" or not self.alpha:
            return {}
        added = {"weight": self.alpha} if self.use == "weight" else {}

        def load(pairs: list[tuple[int, int]], step: int) -> LoadedItems:
            return collate.load([dataset[step, image, text] for image, text in pairs])

        def join(parts: list[LoadedItems]) -> Row:
            return {**collate.collate(parts), **added}

        captions = np.split(self.matrix.indices, self.matrix.indptr[1:-1])
        weak = WeakBatches(dict(enumerate(captions)), load, join, size=size, seed=seed)
        return {"added_batches": weak} if added else {"weak_batches": weak, "alpha": self.alpha}


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
