"""Small copies of images, to be put into a page as data URIs."""

from __future__ import annotations

import base64
from collections.abc import Collection
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageOps

from cxc_eccv.builders.image_files import ImageFolder
from cxc_eccv.errors import InvalidOption

__all__ = ["thumbnail", "thumbnails"]

LONGEST_SIDE, QUALITY = 192, 72


def thumbnails(folder: str | Path, file_names: Collection[str]) -> dict[str, str]:
    """File name to data URI of a JPEG of at most 192 pixels; names that the folder lacks are not in it.

    Args:
        folder: with the images, at any depth.
        file_names: of the images to show.

    Raises:
        InvalidOption: no such folder, or it holds none of the images.
        MalformedSource: a file is not a complete image.

    Example:
        >>> import tempfile
        >>> Image.new("RGB", (640, 480)).save(Path(folder := tempfile.mkdtemp()) / "a.png")
        >>> thumbnails(folder, ["a.png", "b.png"])["a.png"][:23]
        'data:image/jpeg;base64,'
    """
    images, found = ImageFolder(folder), {}
    for name in sorted(set(file_names)):
        content = images.read(name)
        if content is not None:
            found[name] = thumbnail(content["bytes"])
    if file_names and not found:
        raise InvalidOption(
            f"{folder} holds none of the {len(set(file_names))} images shown, for example {min(file_names)}. "
            "Name the folder with the split's image files (val2014 for COCO)."
        )
    return found


def thumbnail(content: bytes) -> str:
    """Data URI of a small JPEG, without the metadata of the original.

    Args:
        content: a complete image of any format that Pillow reads.
    """
    with Image.open(BytesIO(content)) as image:
        small = ImageOps.exif_transpose(image).convert("RGB")
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    out = BytesIO()
    small.save(out, "JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"
