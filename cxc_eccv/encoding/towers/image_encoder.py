"""ImageEncoder: images to vectors, the one image tower of every kind of model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import PreTrainedModel

from cxc_eccv.encoding.models import LoadedModel
from cxc_eccv.encoding.towers.features import image_features
from cxc_eccv.encoding.towers.pictures import open_picture
from cxc_eccv.encoding.work import ImageItem
from cxc_eccv.errors import DataError, InvalidOption, ModelError, TowerMissing
from cxc_eccv.types import check_whole

__all__ = ["ImageEncoder", "ImageInput", "Inputs", "Prepared", "cropped", "prepared_image", "ready_for"]

Inputs = dict[str, torch.Tensor]
"""Tensors by name, the first dimension that of the images."""


class ImageInput:
    """A model's image processor, for one image at a time, so that threads can share the work.

    Args:
        loaded: the model.
        central_crop: share of an image's area to keep, around its centre; None for all of it.
    """

    def __init__(self, loaded: LoadedModel, central_crop: float | None = None) -> None:
        self._processor, self._share = loaded.processors.image_processor(), central_crop

    def __call__(self, image: Image.Image) -> Inputs:
        """Tensors of one RGB image, with a batch of one as their first dimension."""
        whole = image if self._share is None else cropped(image, self._share)
        return dict(self._processor(images=[whole], return_tensors="pt"))


class ImageEncoder:
    """A callable from prepared images to (N, D) float32 vectors.

    Args:
        loaded: the model.
        batch_size: images at once.
        central_crop: share of an image's area to keep, above 0 and at most 1; None for all of it.
        prepared_by: the model to what turns one RGB image into tensors, whose first dimension is that of its crops, of
            whose vectors the mean is taken; None for its own image processor.

    Raises:
        TowerMissing: it has no image tower.
        InvalidOption: a crop outside its range.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        batch_size: int,
        central_crop: float | None = None,
        prepared_by: Callable[[LoadedModel], Callable[[Image.Image], Inputs]] | None = None,
    ) -> None:
        if central_crop is not None and (isinstance(central_crop, bool) or not 0 < central_crop <= 1):
            raise InvalidOption(
                f"central_crop is {central_crop!r}, expected a share of the area above 0 and at most 1, such as 0.875"
            )
        if central_crop is not None and prepared_by is not None:
            raise InvalidOption("central_crop and ten_crops are two ways to cut an image; give one of them")
        if not isinstance(loaded.model, PreTrainedModel):
            raise TowerMissing(f"{loaded.name} encodes texts only; leave out the images")
        self._features, self._loaded = image_features(loaded.model), loaded
        check_whole("batch_size", batch_size)
        self.batch_size = batch_size
        self.prepare = ImageInput(loaded, central_crop) if prepared_by is None else prepared_by(loaded)

    def __call__(self, batch: Sequence[Inputs]) -> NDArray[np.float32]:
        """(N, D) vectors; images whose tensors differ in shape go through the model apart."""
        groups: dict[tuple[torch.Size, ...], list[int]] = {}
        for place, inputs in enumerate(batch):
            groups.setdefault(tuple(tensor.shape for tensor in inputs.values()), []).append(place)
        with torch.inference_mode():
            parts = [self._means([batch[place] for place in group]) for group in groups.values()]
        rows = torch.cat([part.cpu() for part in parts]).numpy()
        vectors = np.empty_like(rows)
        vectors[np.concatenate([np.asarray(group) for group in groups.values()])] = rows
        return vectors

    def _means(self, batch: Sequence[Inputs]) -> torch.Tensor:
        inputs = ready_for(self._loaded, batch)
        try:
            features = self._features(inputs).float()
        except ValueError as error:  # of a model with positions for one size, which crops of another do not fit
            shapes = {name: tuple(tensor.shape) for name, tensor in inputs.items()}
            raise ModelError(f"{self._loaded.name} does not take {shapes}: {error}; give it the size it has") from None
        return features.reshape(len(batch), -1, features.shape[1]).mean(dim=1)


def cropped(image: Image.Image, share: float) -> Image.Image:
    """The middle of an image, of its proportions, with this share of its area.

    Args:
        image: to cut.
        share: above 0, at most 1; the CxC paper takes 0.875 for image-only models.

    Example:
        >>> cropped(Image.new("RGB", (640, 480)), 0.875).size
        (599, 449)
    """
    width, height = (max(1, round(side * math.sqrt(share))) for side in image.size)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def ready_for(loaded: LoadedModel, batch: Sequence[Inputs]) -> Inputs:
    """The inputs of several images as one batch, on the model's device, floating ones in its type."""
    joined = {name: torch.cat([inputs[name] for inputs in batch]) for name in batch[0]}
    return {
        name: tensor.to(loaded.device, loaded.dtype if tensor.is_floating_point() else None)
        for name, tensor in joined.items()
    }


Prepared = tuple[Inputs | None, str]
"""A model's inputs with the mode of the image they came from, or None with what is wrong with it."""


def prepared_image(item: ImageItem, prepare: Callable[[Image.Image], Inputs], skip_bad: bool) -> Prepared:
    """Open an image and prepare it.

    Args:
        item: id and image.
        prepare: RGB image to a model's inputs.
        skip_bad: give None and the reason for one that cannot be read.

    Raises:
        SourceMissing: no such file, unless ``skip_bad``.
        MalformedSource: not a complete image, or of an unknown mode, unless ``skip_bad``.
    """
    number, source = item
    try:
        picture = open_picture(source)
    except DataError as error:
        if skip_bad:
            return None, str(error)
        error.add_note(f"image id {number}")
        error.args = (f"{error}; cxc-eccv encode can leave it out with --skip-bad-images",)
        raise
    return prepare(picture.image), picture.mode
