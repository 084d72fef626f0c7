"""One image, opened and made RGB: what cannot be read is an error, and what is converted is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from cxc_eccv.errors import MalformedSource, SourceMissing

__all__ = ["Picture", "open_picture", "picture_mode"]

CONVERTED = ("1", "L", "LA", "La", "P", "PA", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")
"""Modes of 8 bits a channel; of others Pillow's RGB is clipped, not scaled."""


class Picture(NamedTuple):
    """An image as models take it.

    Attributes:
        image: RGB.
        mode: the mode it came in.
    """

    image: Image.Image
    mode: str


def open_picture(source: str | Path | Image.Image) -> Picture:
    """Read an image and convert it to RGB, dropping transparency as the models' own pipelines do.

    Args:
        source: a file, or an image of Pillow.

    Raises:
        SourceMissing: no such file.
        MalformedSource: not a complete image, or with more than 8 bits a channel.

    Example:
        >>> open_picture(Image.new("L", (4, 3), 200))
        Picture(image=<PIL.Image.Image image mode=RGB size=4x3 at ...>, mode='L')
    """
    if isinstance(source, Image.Image):
        return Picture(_rgb(source, "the image given"), source.mode)
    path = Path(source)
    with _opened(path) as image:
        image.load()
        return Picture(_rgb(image, path), image.mode)


def picture_mode(path: Path) -> str:
    """The mode an image file is in, from its header: none of its pixels is read.

    Raises:
        SourceMissing: no such file.
        MalformedSource: not an image, or with more than 8 bits a channel.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "grey.png"
        >>> Image.new("L", (4, 3), 200).save(path)
        >>> picture_mode(path)
        'L'
    """
    with _opened(path) as image:
        _refuse_deep(image.mode, path)
        return image.mode


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    if not path.is_file():
        raise SourceMissing(f"no image {path}; add the file")
    try:
        with Image.open(path) as image:
            yield image
    except MalformedSource:
        raise
    except Exception as error:  # Pillow's decoders raise errors of many unrelated kinds.
        raise MalformedSource(path, "", error, "a complete image; fetch it again") from None


def _rgb(image: Image.Image, where: str | Path) -> Image.Image:
    if image.mode == "RGB":
        return image.copy()
    _refuse_deep(image.mode, where)
    # A palette whose transparency is a table of bytes has to go through RGBA.
    return (image.convert("RGBA") if isinstance(image.info.get("transparency"), bytes) else image).convert("RGB")


def _refuse_deep(mode: str, where: str | Path) -> None:
    if mode != "RGB" and mode not in CONVERTED:
        raise MalformedSource(where, "", f"mode {mode}", "8 bits a channel; scale it to 8 bits and save it as RGB")
