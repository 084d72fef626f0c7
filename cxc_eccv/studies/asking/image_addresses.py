"""The addresses of the images that questions show, or the images themselves."""

from __future__ import annotations

import base64
from collections.abc import Collection
from io import BytesIO
from pathlib import Path
from string import Formatter

from PIL import Image

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.errors import InvalidOption, SourceMissing
from cxc_eccv.sources.library import COCO_IMAGES, Split

COCO = "coco"
"""Stands for the official addresses."""

FIELDS = ("image_id", "file_name", "folder")


def find_images(address: str | Path, names: Collection[str], split: Split) -> dict[str, str]:
    """File name to address, for the files that :func:`cxc_eccv.studies.asking.questionnaire.list_files` names.

    ``address`` is ``coco`` for the official addresses; a pattern such as ``https://example.org/{folder}/{file_name}``,
    ``images/{file_name}`` (relative to the page) or ``/data/local-files/?d=coco/{image_id}.jpg``; or a folder of
    images, which are embedded unchanged.
    """
    text = str(address)
    if text == COCO:
        if split.collection.photographs != COCO:
            raise InvalidOption("COCO does not host the images of Flickr30k; give their folder, or images/{file_name}")
        edition = split.library.edition
        if edition != "official":
            raise InvalidOption(
                f"COCO does not host the images of the edition {edition!r}; give their folder, or a pattern of "
                "addresses such as images/{file_name}"
            )
        text = f"{COCO_IMAGES}/{{folder}}/{{file_name}}"
    if "{" not in text:
        return _embed(ImageFolder(address), names)
    _check_pattern(text)
    rows = (row for row in split.images.to_pylist() if row["file_name"] in names)
    return {row["file_name"]: text.format_map(row) for row in rows}


def _check_pattern(text: str) -> None:
    try:
        fields = {name for _, name, _, _ in Formatter().parse(text) if name is not None}
        text.format(image_id=1, file_name="a.jpg", folder="b")
    except (ValueError, LookupError, AttributeError):
        fields = set()
    if not fields <= set(FIELDS) or not fields & {"image_id", "file_name"}:
        raise InvalidOption(f"pattern {text}: use {{file_name}} or {{image_id}}, and {{folder}} if needed")


def _embed(folder: ImageFolder, names: Collection[str]) -> dict[str, str]:
    images = {}
    for name in sorted(names):
        content = folder.read(name)
        if content is None:
            raise SourceMissing(f"{folder.folder} has no file {name}; give a folder with the images of all questions")
        with Image.open(BytesIO(content["bytes"])) as image:
            kind = image.get_format_mimetype()
        images[name] = f"data:{kind};base64,{base64.b64encode(content['bytes']).decode()}"
    return images
