"""Ten crops of an image: its corners and its middle, as it is and mirrored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageOps

from cxc_eccv.encoding.models import LoadedModel
from cxc_eccv.encoding.towers.image_encoder import Inputs
from cxc_eccv.errors import InvalidOption

__all__ = ["TenCropInput", "TenCrops"]


@dataclass(frozen=True, slots=True)
class TenCrops:
    """Scale an image by its shorter side, and cut squares from the four corners and the middle of it and its mirror.

    Attributes:
        shorter_side: pixels of it after scaling, which is bilinear and keeps the shape.
        size: pixels of a crop's side.

    Raises:
        InvalidOption: crops that do not fit.

    References:
        Merkx and Frank 2019, arXiv:1903.11393, section 3.2.1; after Krizhevsky et al., ImageNet classification with
        deep convolutional neural networks, NIPS 2012.

    Example:
        >>> [crop.size for crop in TenCrops(8, 4)(Image.new("RGB", (30, 20)))][:2]
        [(4, 4), (4, 4)]
    """

    shorter_side: int = 256
    size: int = 224

    def __post_init__(self) -> None:
        if not 0 < self.size <= self.shorter_side:
            raise InvalidOption(
                f"crops of {self.size} pixels from images whose shorter side is {self.shorter_side}: a crop must have "
                "at least one pixel and fit into the image"
            )

    def __call__(self, image: Image.Image) -> list[Image.Image]:
        """Top left, top right, bottom left, bottom right, middle; then those of the mirrored image."""
        shortest = min(image.size)
        wanted = [self.shorter_side * side // shortest for side in image.size]
        scaled = image.resize((wanted[0], wanted[1]), Image.Resampling.BILINEAR)
        right, bottom = (side - self.size for side in scaled.size)
        corners = [(0, 0), (right, 0), (0, bottom), (right, bottom), (round(right / 2), round(bottom / 2))]
        return [
            one.crop((left, top, left + self.size, top + self.size))
            for one in (scaled, ImageOps.mirror(scaled))
            for left, top in corners
        ]


class TenCropInput:
    """A model's image processor on the crops of one image; it scales and cuts nothing itself.

    Args:
        loaded: the model.
        crops: how to cut.
    """

    def __init__(self, loaded: LoadedModel, crops: TenCrops) -> None:
        self._processor, self._crops = loaded.processors.image_processor(), crops

    def __call__(self, image: Image.Image) -> Inputs:
        """Tensors of one RGB image, with its ten crops as their first dimension."""
        plain: dict[str, Any] = {"do_resize": False, "do_center_crop": False}
        return dict(self._processor(images=self._crops(image), return_tensors="pt", **plain))
