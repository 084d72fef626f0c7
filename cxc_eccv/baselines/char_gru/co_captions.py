"""Training rows: several captions of one image, and its features where there are some."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from cxc_eccv.baselines.caption_groups import CaptionGroup
from cxc_eccv.baselines.char_gru.batches import Draw
from cxc_eccv.baselines.dual_encoder.processing import token_ids
from cxc_eccv.errors import InvalidOption

__all__ = ["CoCaptions", "Row", "collate", "held_out"]

Row = dict[str, Any]


class CoCaptions(Dataset[Row]):
    """Rows of an image: so many of its captions each, and over an epoch every caption once.

    The captions of an image are dealt out anew every epoch. Where they do not divide evenly, the last row is filled up
    with captions of its first. An index is a triple of epoch, image and row, as ``SharedBatches`` gives.

    Args:
        groups: captions by image.
        tokenizer: texts to ids.
        views: captions of a row.
        image_features: (images, F) features in the order of the groups, or None.
        seed: of the orders, which depend on it, the epoch and the image alone.

    Attributes:
        rows: number of rows of each image.

    Raises:
        InvalidOption: a group has fewer captions than a row, or the features are of other images.

    Warns:
        UserWarning: how many captions have more characters than the tokenizer's limit, and are cut.

    Example:
        >>> from cxc_eccv.baselines.char_gru.characters import character_tokenizer
        >>> groups = [CaptionGroup("coco", 7, (1, 2), ("a cat", "cat"))]
        >>> rows = CoCaptions(groups, character_tokenizer(groups[0].texts), views=1)
        >>> rows.rows, sorted(len(rows[0, 0, row]["input_ids"][0]) for row in range(2))
        ([2], [3, 5])
    """

    def __init__(
        self,
        groups: Sequence[CaptionGroup],
        tokenizer: Any,  # noqa: ANN401 - untyped in transformers
        views: int,
        image_features: NDArray[np.float32] | None = None,
        seed: int = 0,
    ) -> None:
        if views < 1:
            raise InvalidOption(f"a row takes {views} captions of an image; ask for at least one")
        few = [group for group in groups if len(group.texts) < views]
        if few or not groups:
            found = f"{len(few)} images have fewer, the first: {few[0].image_id}" if few else "there is no image"
            raise InvalidOption(f"a row takes {views} captions of an image, but {found}. Ask for fewer per row")
        if image_features is not None and len(image_features) != len(groups):
            raise InvalidOption(f"{len(image_features)} image features for {len(groups)} images")
        self.views, self.image_features, self.seed = views, image_features, seed
        ids = iter(token_ids(tokenizer, [text for group in groups for text in group.texts]))
        self.ids = [list(islice(ids, len(group.texts))) for group in groups]
        self.rows = [math.ceil(len(own) / views) for own in self.ids]

    def __len__(self) -> int:
        return sum(self.rows)

    def __getitem__(self, draw: Draw) -> Row:
        epoch, image, number = draw
        ids = self.ids[image]
        order = np.random.default_rng([self.seed, epoch, image]).permutation(len(ids)).tolist()
        # Past the end the captions of the first row follow, which are others: there are as many as a row takes.
        places = (order + order)[number * self.views : (number + 1) * self.views]
        row: Row = {"input_ids": [ids[place] for place in places]}
        return row if self.image_features is None else row | {"image_features": self.image_features[image]}


def collate(rows: Sequence[Row]) -> dict[str, torch.Tensor]:
    """Rows to a batch, padded on the right.

    Returns:
        ``input_ids`` and ``attention_mask`` (N, V, T) int64; ``image_features`` (N, F) float32 where rows have them.

    Example:
        >>> collate([{"input_ids": [[5], [6, 7]]}])["input_ids"].tolist()
        [[[5, 0], [6, 7]]]
    """
    longest = max(len(ids) for row in rows for ids in row["input_ids"])
    shape = len(rows), len(rows[0]["input_ids"]), longest
    input_ids, mask = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
    for place, row in enumerate(rows):
        for view, ids in enumerate(row["input_ids"]):
            input_ids[place, view, : len(ids)] = torch.tensor(ids)
            mask[place, view, : len(ids)] = 1
    batch = {"input_ids": input_ids, "attention_mask": mask}
    if "image_features" in rows[0]:
        batch["image_features"] = torch.from_numpy(np.stack([row["image_features"] for row in rows]))
    return batch


def held_out(groups: Sequence[CaptionGroup], count: int) -> tuple[list[CaptionGroup], list[CaptionGroup]]:
    """Groups to train on, and ``count`` others spread evenly over all, to select snapshots by.

    Raises:
        InvalidOption: nothing would be left on one of the two sides.

    Example:
        >>> groups = [CaptionGroup("coco", number, (number,), ("a",)) for number in range(5)]
        >>> [group.image_id for group in held_out(groups, 2)[1]]
        [0, 2]
    """
    if not 0 < count < len(groups):
        raise InvalidOption(
            f"{count} of {len(groups)} images held out; hold out at least one, and keep one to train on"
        )
    places = {place * len(groups) // count for place in range(count)}
    train = [group for place, group in enumerate(groups) if place not in places]
    return train, [groups[place] for place in sorted(places)]
