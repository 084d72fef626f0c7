"""The two sides to encode, images and captions: checks of the inputs, and their shards."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from cxc_eccv.encoding.images import ImageEncoder, ImageItem, Inputs, Prepared, prepare_image
from cxc_eccv.encoding.shards import Notes, Shard, image_identity
from cxc_eccv.encoding.texts import TextEncoder
from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.sources.download import image_folder
from cxc_eccv.types import IntArray
from cxc_eccv.types.ids import all_unique, check_ids

CAPTION_COLUMNS = ("caption_id", "text")
COCO_FILE_NAME = re.compile(r"COCO_(?:train|val|test)\d{4}_(\d{12})\.jpe?g", re.IGNORECASE)

BATCHES_AHEAD = 3
SHARD_SIZE = 1024
"""Items of a shard, which is the most work that a kill loses."""


def caption_items(captions: Any) -> tuple[IntArray, list[str]]:  # noqa: ANN401 - a table, a dataset, or pairs
    """Ids and texts of (caption id, text) pairs, or of a table with the columns ``caption_id`` and ``text``."""
    ids, texts = _take_columns(captions)
    if not ids:
        raise InvalidOption("there is no caption to encode; give at least one")
    for number, text in zip(ids, texts, strict=True):
        if not isinstance(text, str):
            raise MalformedRun(f"captions: the caption of id {number} is {text!r}; give every caption a text")
    return check_ids("captions", "caption_id", np.asarray(ids)), texts


def _take_columns(captions: Any) -> tuple[list[Any], list[Any]]:  # noqa: ANN401
    names = getattr(captions, "column_names", None) or list(getattr(captions, "keys", list)())
    if not names:
        pairs = list(captions)
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise InvalidOption("captions: give (caption id, text) pairs, or a table with caption_id and text")
        return [number for number, _ in pairs], [text for _, text in pairs]
    lacking = [name for name in CAPTION_COLUMNS if name not in list(names)]
    if lacking:
        raise InvalidOption(f"captions have the columns {', '.join(names)}, but lack {' and '.join(lacking)}")
    ids, texts = (captions[name] for name in CAPTION_COLUMNS)
    if isinstance(captions, pa.Table):
        return ids.to_pylist(), texts.to_pylist()
    return list(ids), list(texts)


def image_items(images: str | Path | Iterable[tuple[Any, Any]]) -> list[ImageItem]:
    """(image id, file or Pillow image) pairs, from such pairs or from the files with COCO names in a folder."""
    items = _find_items(Path(images)) if isinstance(images, str | Path) else [_check_item(*pair) for pair in images]
    ids = np.array([number for number, _ in items], dtype=np.int64)
    if not ids.size:
        raise InvalidOption("there is no image to encode; give at least one")
    if not all_unique(ids):
        values, counts = np.unique(ids, return_counts=True)
        repeated = values[counts > 1][0]
        places = [str(source) for number, source in items if number == repeated]
        raise MalformedRun(f"image id {repeated} occurs {len(places)} times: {places[0]} and {places[1]}; keep one")
    return items


def _find_items(folder: Path) -> list[ImageItem]:
    folder = image_folder(folder)
    named = ((COCO_FILE_NAME.fullmatch(path.name), path) for path in folder.rglob("*"))
    items: list[ImageItem] = [(int(name[1]), path) for name, path in named if name]
    if not items:
        raise InvalidOption(
            f"{folder} holds no file named like COCO_val2014_000000391895.jpg; give images as (image id, file) pairs"
        )
    return sorted(items, key=lambda item: (item[0], str(item[1])))


def _check_item(number: Any, source: Any) -> ImageItem:  # noqa: ANN401 - whatever the caller has
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise InvalidOption(f"image id {number!r} is not a whole number; use the COCO ids")
    if not isinstance(source, str | Path | Image.Image):
        raise InvalidOption(f"image {number} is a {type(source).__name__}; give a file or a Pillow image")
    return int(number), source if isinstance(source, Image.Image) else Path(source)


class CaptionSide:
    """Captions and the encoder of their texts."""

    shard_size = SHARD_SIZE

    def __init__(self, encoder: TextEncoder, ids: IntArray, texts: Sequence[str], name: str = "captions") -> None:
        self._encoder = encoder
        self.ids = ids
        self._texts = texts
        self.name = name

    def identity(self, part: slice) -> list[Any]:
        """The texts."""
        return list(self._texts[part])

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """See :class:`~cxc_eccv.encoding.shards.Side`."""
        for part in parts:
            before = self._encoder.truncated
            vectors = self._encoder(self._texts[part])
            yield Shard(self.ids[part], vectors, Notes(truncated=self._encoder.truncated - before))


class PictureSide:
    """Items that an image each belongs to, in the order of the images, so that an image is opened once.

    ``rows`` is the ascending row of each item's image in ``items``, and ``prepare`` makes the inputs of an RGB image in
    threads; subclasses say how to encode a batch. With ``skip_bad``, items of unreadable images are left out and the
    image is noted, instead of an error.
    """

    name: str
    shard_size: int
    ids: IntArray

    def __init__(
        self,
        items: Sequence[ImageItem],
        rows: IntArray,
        prepare: Callable[[Image.Image], Inputs],
        *,
        batch_size: int,
        skip_bad: bool,
    ) -> None:
        self.items = items
        self.rows = rows
        self.prepare = prepare
        self.batch_size = batch_size
        self.skip_bad = skip_bad
        self.ahead = BATCHES_AHEAD * batch_size

    def encode(self, places: Sequence[int], images: Sequence[Inputs]) -> NDArray[np.float32]:
        """(N, D) rows for the items at these places, with the inputs of their images."""
        raise NotImplementedError

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """See :class:`~cxc_eccv.encoding.shards.Side`; threads open and prepare images ahead."""
        rows = chain.from_iterable(np.unique(self.rows[part]).tolist() for part in parts)
        prepared = work_ahead(lambda row: prepare_image(self.items[row], self.prepare, self.skip_bad), rows, self.ahead)
        for part in parts:
            yield self._shard(part, prepared)

    def _shard(self, part: slice, prepared: Iterator[Prepared]) -> Shard:
        vectors = list[NDArray[np.float32]]()
        good = list[int]()
        notes = Notes()
        images: dict[int, Prepared] = {}
        for start in range(part.start, part.stop, self.batch_size):
            places = range(start, min(start + self.batch_size, part.stop))
            rows = self.rows[places.start : places.stop].tolist()
            new = [row for row in dict.fromkeys(rows) if row not in images]
            kept = {row: image for row, image in images.items() if row in rows}
            images = kept | dict(zip(new, islice(prepared, len(new)), strict=True))
            for row in new:
                inputs, remark = images[row]
                is_continued = part.start > 0 and self.rows[part.start - 1] == row
                if inputs is None:
                    notes.skipped[self.items[row][0]] = remark
                elif remark != "RGB" and not is_continued:  # counted once, in the shard where its items begin
                    notes.converted[remark] = notes.converted.get(remark, 0) + 1
            readable = [(place, images[row][0]) for place, row in zip(places, rows, strict=True)]
            batch = [(place, inputs) for place, inputs in readable if inputs is not None]
            if batch:
                good += [place for place, _ in batch]
                vectors.append(self.encode([place for place, _ in batch], [inputs for _, inputs in batch]))
        rows_of_all = np.concatenate(vectors) if vectors else np.empty((0, 0), dtype=np.float32)
        return Shard(self.ids[good], rows_of_all, notes)


class ImageSide(PictureSide):
    """Images and their encoder."""

    shard_size = SHARD_SIZE

    def __init__(self, encoder: ImageEncoder, items: Sequence[ImageItem], skip_bad: bool, name: str = "images") -> None:
        self.name = name
        rows = np.arange(len(items))
        batch_size = encoder.batch_size
        super().__init__(items, rows, encoder.prepare, batch_size=batch_size, skip_bad=skip_bad)
        self._encoder = encoder
        self.ids = np.array([number for number, _ in items], dtype=np.int64)

    def identity(self, part: slice) -> list[Any]:
        """Name, size and time of the files, and whether unreadable ones are skipped."""
        return [self.skip_bad, *(image_identity(source) for _, source in self.items[part])]

    def encode(self, places: Sequence[int], images: Sequence[Inputs]) -> NDArray[np.float32]:
        """See :class:`PictureSide`."""
        return self._encoder(images)


Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def work_ahead(work: Callable[[Item], Outcome], items: Iterable[Item], window: int) -> Iterator[Outcome]:
    """``work(item)`` for every item in order, computed by threads at most ``window`` items ahead."""
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        waiting: deque[Future[Outcome]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= window:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
