"""Weak positives in training: extra batches or additional positives, and never negatives."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import MinedPairs
from cxc_eccv.studies.baselines.caption_groups import CaptionGroup, parts_of
from cxc_eccv.studies.baselines.dual_encoder.arguments import DataArguments, ObjectiveArguments
from cxc_eccv.studies.baselines.dual_encoder.data import LoadedItems, PairCollator
from cxc_eccv.studies.baselines.dual_encoder.losses import BatchPositives, Objective
from cxc_eccv.studies.entailment.enhanced import WeakBatches
from cxc_eccv.types import IntArray, positions_of

USES = ("extra_batch", "weight", "multi_positive")


def check_weak_positives(objective: ObjectiveArguments, data: DataArguments) -> None:
    """Raise InvalidOption for options that do not go together, before anything is loaded."""
    if objective.weak_positives_as not in USES:
        raise UnknownName("use of weak positives", objective.weak_positives_as, USES)
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
        parts = parts_of(data.train_on)
        files = [mined for name, split in parts if (mined := library.mined(split, name)) is not None]
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
        rows, columns = rows[known & ~is_own], columns[known & ~is_own]
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
    ) -> dict[str, Any]:
        """Options of DualEncoderTrainer with batches of weak positives."""
        if self.use == "multi_positive" or not self.alpha:
            return {}
        has_weight = self.use == "weight"
        maker = _BatchMaker(dataset, collate, {"weight": self.alpha} if has_weight else {})
        captions = np.split(self.matrix.indices, self.matrix.indptr[1:-1])
        weak = WeakBatches(dict(enumerate(captions)), maker.load, maker.collate, size=size, seed=seed)
        return {"added_batches": weak} if has_weight else {"weak_batches": weak, "alpha": self.alpha}


@dataclass(frozen=True, slots=True)
class _BatchMaker:
    """Makes batches of weak positives like those of the training, with ``added`` entries."""

    dataset: Any
    collator: PairCollator
    added: dict[str, float]

    def load(self, pairs: list[tuple[int, int]], step: int) -> LoadedItems:
        """Some items of a batch, with their images."""
        return self.collator.load([self.dataset[step, image, text] for image, text in pairs])

    def collate(self, parts: list[LoadedItems]) -> dict[str, Any]:
        """The batch."""
        return {**self.collator.collate(parts), **self.added}


def _find(
    mined: MinedPairs, groups: Sequence[CaptionGroup], sizes: Sequence[int]
) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
    """(P,) indices of the images and of the captions among those of the groups, and whether both are among them."""
    collection = "coco" if mined.collection == "coco" else "flickr"
    inside = [group.collection == collection for group in groups]
    images = np.where(inside, [group.image_id for group in groups], -1)
    texts = np.where(np.repeat(inside, sizes), [number for group in groups for number in group.caption_ids], -1)
    rows, has_image = positions_of(mined.table["image_id"].to_numpy(), images)
    columns, has_text = positions_of(mined.table["caption_id"].to_numpy(), texts)
    return rows, columns, has_image & has_text
