"""An image made ready for a model, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image

from cxc_eccv.encoding.image_encoder import Inputs
from cxc_eccv.encoding.image_items import ImageItem
from cxc_eccv.encoding.pictures import open_picture
from cxc_eccv.errors import DataError

__all__ = ["Prepared", "prepared_image"]

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
