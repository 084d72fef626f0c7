"""Pairs of images and captions as something to encode: one score for a vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from cxc_eccv.encoding.ahead import done_ahead
from cxc_eccv.encoding.fingerprints import image_identity
from cxc_eccv.encoding.image_items import ImageItem
from cxc_eccv.encoding.pair_scorer import PairScorer
from cxc_eccv.encoding.prepared import Prepared, prepared_image
from cxc_eccv.encoding.shards import Notes, Shard
from cxc_eccv.types import IntArray

__all__ = ["PairSide"]

IMAGES_AHEAD = 32


class PairSide:
    """Pairs, those of an image together, so that it is opened once.

    Args:
        scorer: of pairs.
        items: ids with files or images.
        texts: of the captions.
        image_rows: (P,) ascending places in ``items``.
        caption_rows: (P,) places in ``texts``.
        skip_bad: leave out the pairs of an image that cannot be read, and note it.
    """

    name = "pairs"
    shard_size = 8192

    def __init__(
        self,
        scorer: PairScorer,
        items: Sequence[ImageItem],
        texts: Sequence[str],
        image_rows: IntArray,
        caption_rows: IntArray,
        skip_bad: bool,
    ) -> None:
        self._scorer, self._items, self._texts, self._skip_bad = scorer, items, texts, skip_bad
        self._image_rows, self._caption_rows = image_rows, caption_rows
        self.ids = np.arange(image_rows.size)

    def identity(self, part: slice) -> list[Any]:
        """The images and captions that occur, and how they pair up."""
        images, captions = np.unique(self._image_rows[part]), np.unique(self._caption_rows[part])
        pairs = [self._image_rows[part].tolist(), self._caption_rows[part].tolist()]
        files = [image_identity(self._items[row][1]) for row in images.tolist()]
        return [self._skip_bad, *pairs, files, [self._texts[row] for row in captions.tolist()]]

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """Score slices of the pairs; (N, 1) scores stand for vectors."""
        rows = chain.from_iterable(np.unique(self._image_rows[part]).tolist() for part in parts)
        prepared = done_ahead(self._prepared, rows, IMAGES_AHEAD)
        for part in parts:
            yield self._shard(part, prepared)

    def _prepared(self, row: int) -> Prepared:
        return prepared_image(self._items[row], self._scorer.prepare, self._skip_bad)

    def _shard(self, part: slice, prepared: Iterator[Prepared]) -> Shard:
        scores, kept, notes = [], [], Notes()
        current: dict[int, Prepared] = {}
        for start in range(part.start, part.stop, self._scorer.batch_size):
            pairs = self.ids[start : min(start + self._scorer.batch_size, part.stop)]
            rows = np.unique(self._image_rows[pairs]).tolist()
            current = {row: current[row] if row in current else next(prepared) for row in rows}
            self._note(pairs, current, notes)
            good = [pair for pair in pairs.tolist() if current[int(self._image_rows[pair])][0] is not None]
            kept += good
            scores += [self._scores(good, current)] if good else []
        vectors = np.concatenate(scores) if scores else np.empty(0, dtype=np.float32)
        return Shard(np.array(kept, dtype=np.int64), vectors[:, None], notes)

    def _scores(self, pairs: list[int], current: dict[int, Prepared]) -> Any:  # noqa: ANN401 - (N,) float32
        images = [current[int(self._image_rows[pair])][0] for pair in pairs]
        texts = [self._texts[int(self._caption_rows[pair])] for pair in pairs]
        return self._scorer([inputs for inputs in images if inputs is not None], texts)

    def _note(self, pairs: IntArray, current: dict[int, Prepared], notes: Notes) -> None:
        """Note an image where its first pair is, so that it counts once."""
        for pair in pairs.tolist():
            row = int(self._image_rows[pair])
            inputs, remark = current[row]
            if inputs is None:
                notes.skipped[self._items[row][0]] = remark
            elif remark != "RGB" and (pair == 0 or self._image_rows[pair - 1] != row):
                notes.converted[remark] = notes.converted.get(remark, 0) + 1
