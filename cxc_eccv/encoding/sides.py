"""The two sides to encode, images and captions: checks of the inputs, and their shards."""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from PIL import Image

from cxc_eccv.encoding.images import ImageEncoder, ImageItem, Prepared, prepare_image
from cxc_eccv.encoding.shards import Notes, Shard, image_identity
from cxc_eccv.encoding.towers import TextEncoder
from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.runs.run import check_ids
from cxc_eccv.sources.download import image_folder
from cxc_eccv.types import IntArray
from cxc_eccv.types.ids import all_unique

COLUMNS = ("caption_id", "text")
COCO_NAME = re.compile(r"COCO_(?:train|val|test)\d{4}_(\d{12})\.(?:jpe?g|png)", re.IGNORECASE)

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
    lacking = [name for name in COLUMNS if name not in list(names)]
    if lacking:
        raise InvalidOption(f"captions have the columns {', '.join(names)}, but lack {' and '.join(lacking)}")
    ids, texts = (captions[name] for name in COLUMNS)
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
    named = ((COCO_NAME.fullmatch(path.name), path) for path in folder.rglob("*"))
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

    name = "captions"
    shard_size = SHARD_SIZE

    def __init__(self, encoder: TextEncoder, ids: IntArray, texts: Sequence[str]) -> None:
        self._encoder, self.ids, self._texts = encoder, ids, texts

    def identity(self, part: slice) -> list[Any]:
        """The texts."""
        return list(self._texts[part])

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """See :class:`~cxc_eccv.encoding.shards.Side`."""
        for part in parts:
            before = self._encoder.truncated
            vectors = self._encoder(self._texts[part])
            yield Shard(self.ids[part], vectors, Notes(truncated=self._encoder.truncated - before))


class ImageSide:
    """Images and their encoder; with ``skip_bad``, unreadable images are skipped and noted instead of an error."""

    name = "images"
    shard_size = SHARD_SIZE

    def __init__(self, encoder: ImageEncoder, items: Sequence[ImageItem], skip_bad: bool) -> None:
        self._encoder, self._items, self._skip_bad = encoder, items, skip_bad
        self.ids = np.array([number for number, _ in items], dtype=np.int64)

    def identity(self, part: slice) -> list[Any]:
        """Name, size and time of the files, and whether unreadable ones are skipped."""
        return [self._skip_bad, *(image_identity(source) for _, source in self._items[part])]

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """See :class:`~cxc_eccv.encoding.shards.Side`; threads open and prepare images ahead."""
        items = (item for part in parts for item in self._items[part])
        prepared = work_ahead(
            lambda item: prepare_image(item, self._encoder.prepare, self._skip_bad),
            items,
            BATCHES_AHEAD * self._encoder.batch_size,
        )
        for part in parts:
            yield self._shard(self.ids[part], prepared)

    def _shard(self, ids: IntArray, prepared: Iterator[Prepared]) -> Shard:
        rows, kept, notes, modes = [], [], Notes(), Counter[str]()
        for start in range(0, ids.size, self._encoder.batch_size):
            numbers = ids[start : start + self._encoder.batch_size].tolist()
            outcomes = list(zip(numbers, islice(prepared, len(numbers)), strict=True))
            notes.skipped |= {number: remark for number, (inputs, remark) in outcomes if inputs is None}
            good = [(number, inputs, mode) for number, (inputs, mode) in outcomes if inputs is not None]
            modes.update(mode for _, _, mode in good if mode != "RGB")
            kept += [number for number, _, _ in good]
            rows += [self._encoder([inputs for _, inputs, _ in good])] if good else []
        notes.converted = dict(modes)
        vectors = np.concatenate(rows) if rows else np.empty((0, 0), dtype=np.float32)
        return Shard(np.array(kept, dtype=np.int64), vectors, notes)


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
