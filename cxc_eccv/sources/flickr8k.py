"""Flickr8k's captions (``Flickr8k.token.txt``): five raw texts for each of 8,092 images."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import first_duplicate, read_lines, shown

__all__ = ["read_flickr8k"]

# One image is written ``.jpg.1`` on some of its lines; the photo number is the same.
LINE = re.compile(r"(?P<photo>\d{1,15})_[0-9a-f]+\.jpg(?:\.1)?#(?P<number>\d)\t(?P<text>.*\S.*)")


def read_flickr8k(path: Path) -> pa.Table:
    r"""Read the token file.

    An image's id is its Flickr photo number, as in Flickr30k; a caption's is ten times that number plus its position.

    Args:
        path: lines of ``<photo>_<secret>.jpg#<position>``, a tab, and the text as its author wrote it.

    Returns:
        ``caption_id``, ``image_id`` int64 and ``text``, in file order.

    Raises:
        MalformedSource: a line of another form, or a caption given twice.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "Flickr8k.token.txt"
        ...     _ = file.write_text("1000268201_693b08cb0e.jpg#0\tA child .\n1000268201_693b08cb0e.jpg#1\tA girl .\n")
        ...     read_flickr8k(file).to_pylist()[1]
        {'caption_id': 10002682011, 'image_id': 1000268201, 'text': 'A girl .'}
    """
    rows = [_row(path, number, line) for number, line in enumerate(read_lines(path), start=1)]
    photos, positions, texts = zip(*rows, strict=True)
    image_ids = np.array(photos, dtype=np.int64)
    caption_ids = image_ids * 10 + np.array(positions, dtype=np.int64)
    twice = first_duplicate(caption_ids)
    if twice is not None:
        raise MalformedSource(path, f"line {twice + 1}", "a caption given before", "every image#position once")
    return pa.table({"caption_id": caption_ids, "image_id": image_ids, "text": pa.array(texts)})


def _row(path: Path, number: int, line: str) -> tuple[int, int, str]:
    match = LINE.fullmatch(line)
    if match is None:
        raise MalformedSource(path, f"line {number}", shown(line), "photo_secret.jpg#position, a tab, a text")
    return int(match["photo"]), int(match["number"]), match["text"]
