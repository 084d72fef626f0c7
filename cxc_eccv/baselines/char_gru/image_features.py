"""Precomputed image features by image id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cxc_eccv.baselines.caption_groups import CaptionGroup
from cxc_eccv.errors import InvalidOption, MalformedRun, MissingIds
from cxc_eccv.runs import load_embeddings
from cxc_eccv.sources.reading import first_duplicate
from cxc_eccv.types import Embeddings, IntArray, positions_of

__all__ = ["ImageFeatures"]


class ImageFeatures:
    """The vectors of a file, looked up by image.

    Args:
        embeddings: ids and vectors of images.

    Example:
        >>> features = ImageFeatures(Embeddings([7, 8], [[1, 2], [3, 4]]))
        >>> features.of_ids(np.array([8])).tolist(), features.width
        ([[3.0, 4.0]], 2)
    """

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings

    @classmethod
    def read(cls, path: str | Path) -> ImageFeatures:
        """From an embeddings file with ``image_ids`` and ``image_embeddings``.

        Raises:
            MalformedRun: the file holds no images, or is no embeddings file.
        """
        images = load_embeddings(Path(path)).images
        if images is None:
            raise MalformedRun(f"{path} holds no image_ids and image_embeddings; features of images are needed")
        return cls(images)

    @property
    def width(self) -> int:
        """Numbers per image."""
        return int(self._embeddings.vectors.shape[1])

    def of(self, groups: Sequence[CaptionGroup]) -> NDArray[np.float32]:
        """(groups, F) features of the groups' images.

        Raises:
            InvalidOption: images of two collections have the same id, which the features cannot tell apart.
            MissingIds: an image has none.
        """
        image_ids = np.array([group.image_id for group in groups], dtype=np.int64)
        twice = first_duplicate(image_ids)
        if twice is not None:
            raise InvalidOption(
                f"image id {image_ids[twice]} is one of COCO and one of Flickr, and features are looked up by id; "
                "train on one of the two"
            )
        return self.of_ids(image_ids)

    def of_ids(self, image_ids: IntArray) -> NDArray[np.float32]:
        """(N, F) features.

        Raises:
            MissingIds: an image has none.
        """
        places, known = positions_of(image_ids, self._embeddings.ids)
        if not known.all():
            missing = image_ids[~known]
            raise MissingIds(
                f"the features lack {missing.size} of {image_ids.size} images, the first: {missing[0]}; add them to "
                "the file, which cxc-eccv features makes of all parts that are named"
            )
        return self._embeddings.vectors[places]

    def encoded(self, model: Any, image_ids: IntArray) -> NDArray[np.float32]:  # noqa: ANN401 - untyped in transformers
        """(N, D) vectors that a model makes of the features.

        Args:
            model: has ``get_image_features``.
            image_ids: (N,).
        """
        with torch.inference_mode():
            vectors = model.get_image_features(torch.from_numpy(self.of_ids(image_ids)).to(model.device)).pooler_output
        return np.asarray(vectors.float().cpu().numpy())
