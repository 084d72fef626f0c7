"""Pixel values of one image, bit for bit those of the model's processor, in half its time where its steps are plain."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import BaseImageProcessor
from transformers.image_transforms import get_resize_output_image_size

__all__ = ["PlainSteps", "plain_steps"]

KINDS_OF_SIZE = ({"height", "width"}, {"shortest_edge"})

PROBES = ((97, 61), (320, 448))
"""Width and height of the pictures that are compared: to enlarge and to reduce, lying and upright."""


class PlainSteps:
    """Resize, crop and look up: the steps of a processor that scales every pixel by itself.

    The processor computes with every pixel in floats; a table of all 256 values, which it makes itself, gives the same.
    """

    def __init__(self, processor: BaseImageProcessor) -> None:
        self._processor: Any = processor
        levels = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
        values = processor(images=[Image.fromarray(levels)], do_resize=False, do_center_crop=False, return_tensors="np")
        self._table: NDArray[Any] = np.ascontiguousarray(values["pixel_values"][0, :, 0])

    def __call__(self, image: Image.Image) -> dict[str, torch.Tensor]:
        """The inputs of one RGB image, as a batch."""
        if self._processor.do_resize:
            image = image.resize(self._new_size(image), self._processor.resample)
        pixels = np.asarray(image).transpose(2, 0, 1)
        if self._processor.do_center_crop:
            pixels = self._processor.center_crop(pixels, self._processor.crop_size)
        values = np.empty((1, *pixels.shape), dtype=self._table.dtype)
        for table, channel, out in zip(self._table, pixels, values[0], strict=True):
            # No pixel is beyond the table; only with "clip" does NumPy write to the output without a copy of its own.
            np.take(table, channel, out=out, mode="clip")
        return {"pixel_values": torch.from_numpy(values)}

    def _new_size(self, image: Image.Image) -> tuple[int, int]:
        size = self._processor.size
        if not size.shortest_edge:
            return size.width, size.height
        shape = np.broadcast_to(np.uint8(0), (3, image.height, image.width))
        height, width = get_resize_output_image_size(
            shape, size=size.shortest_edge, default_to_square=False, input_data_format="channels_first"
        )
        return width, height


def plain_steps(processor: BaseImageProcessor) -> PlainSteps | None:
    """A processor's steps where they are plain, else None.

    They are where its class takes all of them from Pillow's backend of transformers, it is set to nothing but sizes and
    scales, and pictures of noise come out with the same bits: a later transformers may do more in the same methods.
    """
    if not _has_plain_settings(processor):
        return None
    steps = PlainSteps(processor)
    random = np.random.default_rng(0)
    noise = (random.integers(0, 256, (height, width, 3), dtype=np.uint8) for width, height in PROBES)
    return steps if all(_agree(processor, steps, Image.fromarray(pixels)) for pixels in noise) else None


def _has_plain_settings(processor: Any) -> bool:  # noqa: ANN401 - attributes that the base class does not declare
    kinds = type(processor).__mro__
    backend = next((place for place, kind in enumerate(kinds) if kind.__name__ == "PilBackend"), None)
    if backend is None:
        return False
    changed = [name for kind in kinds[:backend] for name, value in vars(kind).items() if callable(value)]
    changed += [name for name, value in vars(processor).items() if callable(value)]
    if {*changed} - {"__init__"} or processor.do_pad:
        return False
    return not processor.do_resize or (isinstance(processor.resample, int) and {*dict(processor.size)} in KINDS_OF_SIZE)


def _agree(processor: BaseImageProcessor, steps: PlainSteps, picture: Image.Image) -> bool:
    wanted, made = dict(processor(images=[picture], return_tensors="pt")), steps(picture)
    return wanted.keys() == made.keys() and all(
        wanted[name].dtype == made[name].dtype and torch.equal(wanted[name], made[name]) for name in made
    )
