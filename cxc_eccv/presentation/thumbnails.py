"""Thumbnails of photographs for a page, as data URIs."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Collection
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageOps

from cxc_eccv.builders.image_columns import ImageFolder

LONGEST_SIDE = 192


def thumbnails(folder: str | Path, file_names: Collection[str], longest_side: int = LONGEST_SIDE) -> dict[str, str]:
    """File name to thumbnail, as a data URI; files that are not below the folder are left out."""
    images = ImageFolder(folder)
    return {
        name: thumbnail(content["bytes"], longest_side)
        for name in sorted(set(file_names))
        if (content := images.read(name)) is not None
    }


def page_images(
    folder: str | Path | None, file_names: Collection[str], longest_side: int = LONGEST_SIDE
) -> dict[str, str] | None:
    """Thumbnails for a page, None without a folder; warns about files that are not below the folder."""
    if folder is None:
        return None
    uris = thumbnails(folder, file_names, longest_side)
    absent = sorted(set(file_names).difference(uris))
    if absent:
        warnings.warn(
            f"{len(uris):,} of the {len(uris) + len(absent):,} photographs shown found in {folder}. The page has empty "
            f"frames for the others, the first {absent[0]}; name the folder that holds them (val2014 for COCO).",
            stacklevel=3,
        )
    return uris


def thumbnail(content: bytes, longest_side: int = LONGEST_SIDE) -> str:
    """A small JPEG of an image, without its metadata, as a data URI."""
    with Image.open(BytesIO(content)) as image:
        small = ImageOps.exif_transpose(image).convert("RGB")
    small.thumbnail((longest_side, longest_side), Image.Resampling.LANCZOS)
    out = BytesIO()
    small.save(out, "JPEG", quality=72, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"
