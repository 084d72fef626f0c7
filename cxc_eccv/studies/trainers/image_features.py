"""Precomputed features of images, from a file of embeddings, in place of an image tower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cxc_eccv.encoding.loading import inference
from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.errors import InvalidOption, MalformedRun, MissingIds
from cxc_eccv.runs import load_embeddings
from cxc_eccv.sources.reading import first_duplicate
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup
from cxc_eccv.studies.trainers.trainer import AnyModel
from cxc_eccv.terminal import say
from cxc_eccv.types import Embeddings, IntArray, find_positions


@dataclass(frozen=True, slots=True)
class ImageFeatures:
    """Precomputed features of images, looked up by image id."""

    embeddings: Embeddings

    @classmethod
    def read(cls, path: str | Path) -> ImageFeatures:
        """Read an embeddings file with ``image_ids`` and ``image_embeddings``; MalformedRun without them."""
        images = load_embeddings(Path(path)).without_roles().images
        if images is None:
            raise MalformedRun(f"{path} has no image_ids and image_embeddings; give a file with features of images")
        return cls(images)

    @property
    def width(self) -> int:
        """Numbers per image."""
        return int(self.embeddings.vectors.shape[1])

    def select(self, groups: Sequence[CaptionGroup]) -> list[CaptionGroup]:
        """The groups whose image has features; the first process says how many have none, InvalidOption if all."""
        has_features = np.isin([group.image_id for group in groups], self.embeddings.ids)
        if not has_features.any():
            raise InvalidOption(
                f"none of the {len(groups)} training images has a vector in --image-features, whose first id is "
                f"{self.embeddings.ids[0]}; give a file of the images of --train-on"
            )
        missing = int((~has_features).sum())
        if missing and current_processes().rank == 0:
            say(f"{missing} of {len(groups)} training images have no vector in --image-features: left out", err=True)
        return [group for group, is_there in zip(groups, has_features, strict=True) if is_there]

    def of(self, groups: Sequence[CaptionGroup]) -> NDArray[np.float32]:
        """(groups, F) features of the groups' images; InvalidOption if two collections have the same image id."""
        image_ids = np.array([group.image_id for group in groups], dtype=np.int64)
        twice = first_duplicate(image_ids)
        if twice is not None:
            raise InvalidOption(
                f"image id {image_ids[twice]} exists in COCO and in Flickr, and features are found by id; train on one "
                "of the two"
            )
        return self.of_ids(image_ids)

    def of_ids(self, image_ids: IntArray) -> NDArray[np.float32]:
        """(N, F) features; MissingIds if an image has none."""
        places, known = find_positions(image_ids, self.embeddings.ids)
        if not known.all():
            missing = image_ids[~known]
            raise MissingIds(
                f"the features lack {missing.size} of {image_ids.size} images, the first: {missing[0]}; give a file "
                "for all parts that you select and report on"
            )
        return self.embeddings.vectors[places]

    def encode(self, model: AnyModel, image_ids: IntArray) -> NDArray[np.float32]:
        """(N, D) vectors of a model for the features."""
        with inference(model):
            vectors = model.get_image_features(torch.from_numpy(self.of_ids(image_ids)).to(model.device)).pooler_output
        return np.asarray(vectors.float().cpu().numpy())
