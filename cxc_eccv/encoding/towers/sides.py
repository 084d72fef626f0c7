"""The two sides to encode, images and captions: their ids, and the shards of any slices of them."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from cxc_eccv.encoding.towers.image_encoder import ImageEncoder, Prepared, prepared_image
from cxc_eccv.encoding.towers.texts import TextEncoder
from cxc_eccv.encoding.work import ImageItem, Notes, Shard, image_identity
from cxc_eccv.types import IntArray

__all__ = ["CaptionSide", "ImageSide", "done_ahead"]

BATCHES_AHEAD = 3
SHARD_SIZE = 1024
"""Items of a shard: what a kill costs at most, and what processes share."""


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
        """See :class:`~cxc_eccv.encoding.work.Side`."""
        for part in parts:
            before = self._encoder.truncated
            vectors = self._encoder(self._texts[part])
            yield Shard(self.ids[part], vectors, Notes(truncated=self._encoder.truncated - before))


class ImageSide:
    """Images and their encoder.

    Args:
        encoder: of the images.
        items: ids with files or images.
        skip_bad: leave out an image that cannot be read, and note it; else it is an error.
    """

    name = "images"
    shard_size = SHARD_SIZE

    def __init__(self, encoder: ImageEncoder, items: Sequence[ImageItem], skip_bad: bool) -> None:
        self._encoder, self._items, self._skip_bad = encoder, items, skip_bad
        self.ids = np.array([number for number, _ in items], dtype=np.int64)

    def identity(self, part: slice) -> list[Any]:
        """Name, size and time of the files; whether a bad one may be missing from the shard."""
        return [self._skip_bad, *(image_identity(source) for _, source in self._items[part])]

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """See :class:`~cxc_eccv.encoding.work.Side`; threads open and prepare images ahead, over the ends of shards."""
        items = (item for part in parts for item in self._items[part])
        prepared = done_ahead(self._prepared, items, BATCHES_AHEAD * self._encoder.batch_size)
        for part in parts:
            yield self._shard(self.ids[part], prepared)

    def _shard(self, ids: IntArray, prepared: Iterator[Prepared]) -> Shard:
        rows, kept, notes, modes = [], [], Notes(), Counter[str]()
        for start in range(0, ids.size, self._encoder.batch_size):
            numbers = ids[start : start + self._encoder.batch_size].tolist()
            found = list(zip(numbers, islice(prepared, len(numbers)), strict=True))
            notes.skipped |= {number: remark for number, (inputs, remark) in found if inputs is None}
            good = [(number, inputs, mode) for number, (inputs, mode) in found if inputs is not None]
            modes.update(mode for _, _, mode in good if mode != "RGB")
            kept += [number for number, _, _ in good]
            rows += [self._encoder([inputs for _, inputs, _ in good])] if good else []
        notes.converted = dict(modes)
        vectors = np.concatenate(rows) if rows else np.empty((0, 0), dtype=np.float32)
        return Shard(np.array(kept, dtype=np.int64), vectors, notes)

    def _prepared(self, item: ImageItem) -> Prepared:
        return prepared_image(item, self._encoder.prepare, self._skip_bad)


Given = TypeVar("Given")
Made = TypeVar("Made")


def done_ahead(work: Callable[[Given], Made], items: Iterable[Given], window: int) -> Iterator[Made]:
    """``work`` of every item in order; at most ``window`` results wait to be taken.

    Args:
        work: what the threads do.
        items: taken as the work proceeds.
        window: bounds the memory.

    Example:
        >>> list(done_ahead(str, range(3), window=2))
        ['0', '1', '2']
    """
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        waiting: deque[Future[Made]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= window:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
