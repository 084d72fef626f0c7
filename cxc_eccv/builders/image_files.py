"""Image files of a folder: found by name, read with a check, embedded into tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from PIL import Image

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource

__all__ = ["ImageFolder", "embed_images"]

IMAGES_PER_GROUP = 100
"""Rows in a Parquet row group with photographs, about 16 MB."""


class ImageFolder:
    """Files below a folder, found by name at any depth.

    Args:
        folder: existing folder; links are followed.

    Raises:
        InvalidOption: no such folder.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "val2014").mkdir()
        >>> (folder / "val2014" / "a.jpg").touch()
        >>> ImageFolder(folder).find("a.jpg").parent.name, ImageFolder(folder).find("b.jpg")
        ('val2014', None)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InvalidOption(f"{self.folder} is not a folder. Name the one that holds the images.")
        self._places: dict[str, list[Path]] = {}
        for path in _files_below(self.folder):
            self._places.setdefault(path.name, []).append(path)

    def find(self, file_name: str) -> Path | None:
        """The file of that name, or None.

        A file directly in the folder goes before those in subfolders.

        Raises:
            DataError: several subfolders hold a file of that name.
        """
        places = self._places.get(file_name, [])
        direct = [path for path in places if path.parent == self.folder]
        if len(places) > 1 and not direct:
            raise DataError(f"{file_name} is in {places[0].parent} and in {places[1].parent}. Point at one of them.")
        return next(iter(direct or places), None)

    def read(self, file_name: str) -> dict[str, Any] | None:
        """Bytes and name of an image, decoded once as a check; None where the file is missing.

        Raises:
            MalformedSource: the file is not a complete image.
        """
        path = self.find(file_name)
        if path is None:
            return None
        content = path.read_bytes()
        try:
            with Image.open(BytesIO(content)) as image:
                image.load()
        except Exception as error:  # Pillow's decoders raise errors of many unrelated kinds.
            raise MalformedSource(path, "", error, "a complete image; fetch the file again") from None
        return {"bytes": content, "path": file_name}


def embed_images(table: pa.Table, folder: ImageFolder, schema: pa.Schema) -> Iterator[pa.Table]:
    """``table`` in slices of 100 rows with the images of its ``file_name`` column; null where a file is missing.

    Args:
        table: has a column ``file_name``.
        folder: where the files are.
        schema: that of ``table`` with the image column as its last field.

    Raises:
        MalformedSource: a file is not a complete image.
    """
    with ThreadPoolExecutor() as threads:
        for start in range(0, table.num_rows, IMAGES_PER_GROUP):
            rows = table.slice(start, IMAGES_PER_GROUP)
            images = list(threads.map(folder.read, rows["file_name"].to_pylist()))
            column = pa.chunked_array([pa.array(images, schema.types[-1])])
            yield pa.Table.from_arrays([*rows.columns, column], schema=schema)


def _files_below(folder: Path) -> Iterator[Path]:
    seen = set()
    for place, subfolders, names in os.walk(folder, followlinks=True):
        # A link may lead back up.
        real = os.path.realpath(place)
        if real in seen:
            subfolders.clear()
            continue
        seen.add(real)
        subfolders.sort()
        for name in sorted(names):
            yield Path(place) / name
