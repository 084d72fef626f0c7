"""Ranks in a gallery too large to copy: counts are made tile by tile and shard by shard, and added."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, MalformedRun, MissingIds, NoSuchFile, UnknownName
from cxc_eccv.ranking.counts import Counts, MergedJudgments
from cxc_eccv.ranking.device import full_precision, torch_on
from cxc_eccv.ranking.scores import (
    ALIGNMENT,
    ROWS_PREPARED_AT_ONCE,
    find_leaders,
    one_blas_thread,
    prepare,
    refuse_extremes,
    refuse_zero_vectors,
    workers,
)
from cxc_eccv.ranking.ties import rank_positives
from cxc_eccv.ranking.tiles import DeviceTile, HostTile, Tile
from cxc_eccv.runs.embeddings import read_npz, write_npz
from cxc_eccv.runs.run import SIMILARITIES, read_entry
from cxc_eccv.types import Embeddings, IntArray, Judgments, PositiveRanks, find_positions
from cxc_eccv.types.ids import check_vector_type, check_whole
from cxc_eccv.writing import replaced_file

TILE_WIDTH = 8192

MOST_DEVICE_WORKERS = 4
"""Threads that prepare tiles for a device, which holds the scores of as many."""


class LargeGallery:
    """Exact ranks of all positives without the gallery in memory.

    Positives, and items with the same bytes as a positive, are scored in a separate small product, so that a positive
    ties with its twins in any shard; other items are scored in their tile. Memory holds the queries, Q x R scores for R
    distinct positives, and per thread two tiles of about 25 MB and the positives. With folds, queries rank only items
    of their fold.

    A gallery can be pickled and sent to other processes; their counts are added here. Every process takes the scores of
    the positives from it, so that all shards are counted against the same numbers.

    Args:
        queries: vectors of the queries.
        judgments: positives of every query.
        positives: vectors of all positives; vectors of other items are ignored.
        similarity: ``cosine`` or ``dot``.
        device: torch device that multiplies and counts, such as ``cuda``; None for NumPy on the CPU.

    Raises:
        MissingIds: a query or a positive has no vector.
        MalformedRun: a vector is zero under ``cosine``, or dot products exceed float32.
        UnknownName: the similarity is unknown.
        InvalidOption: the device cannot be used.

    Example:
        >>> ids, vectors = np.array([7, 8, 9]), np.array([[3, 4], [4, 3], [3, 4]], dtype=np.float16)
        >>> qrels = Judgments.from_pairs([1], ids, [1], [7])
        >>> gallery = LargeGallery(Embeddings([1], [[1.0, 0.0]]), qrels, Embeddings(ids[:1], vectors[:1]))
        >>> counts = gallery.count(ids[:2], vectors[:2]) + gallery.count(ids[2:], vectors[2:])
        >>> gallery.ranks(counts).ranks.tolist()
        [3]
    """

    def __init__(
        self,
        queries: Embeddings,
        judgments: Judgments,
        positives: Embeddings,
        *,
        similarity: str = "cosine",
        device: str | None = None,
    ) -> None:
        if similarity not in SIMILARITIES:
            raise UnknownName("similarity", similarity, SIMILARITIES)
        if device is not None:
            torch_on(device)
        self._similarity = similarity
        self._device = device
        self._merged = MergedJudgments.of({"": judgments})
        items, pair_items = np.unique(self._merged.items, return_inverse=True)
        item_ids = self._merged.gallery_ids[items]
        columns = self._prepare(positives, item_ids, "positives")
        rows = self._prepare(queries, self._merged.query_ids, "queries")
        refuse_extremes(similarity, rows, columns, self._merged.query_ids, item_ids)
        leaders, self._leader_of_item = np.unique(find_leaders(columns), return_inverse=True)
        self._rows = rows
        self._item_ids = item_ids
        self._distinct = np.ascontiguousarray(columns[leaders])
        self._scores = rows @ self._distinct.T
        self._pair_scores = self._scores[self._merged.queries, self._leader_of_item[pair_items]]
        self.digest = self._hash()

    @property
    def n_pairs(self) -> int:
        """The number of distinct positive pairs, P."""
        return self._pair_scores.size

    @property
    def n_items(self) -> int:
        """The number of gallery items, N."""
        return self._merged.gallery_ids.size

    def count(self, ids: IntArray, vectors: NDArray[Any], *, threads: int | None = None) -> ShardCounts:
        """Count a shard of the gallery.

        Args:
            ids: (C,) gallery ids.
            vectors: (C, D) float16, float32 or float64, in memory or memory-mapped; read tile by tile.
            threads: as many processors as an engine gives to this task; None for all that are available, at most 16.

        Raises:
            InvalidOption: ``threads`` is below 1.
            DataError: an id is not in the gallery, or occurs twice.
            MalformedRun: wrong shapes or types, NaN or infinite values, values too large or too small for float32, a
                zero vector under ``cosine``, or a positive with another vector than ``positives`` has.
        """
        if threads is not None:
            check_whole("threads", threads)
        covered = self._cover(ids, vectors)
        segments = self._merged.segments[find_positions(ids, self._merged.gallery_ids)[0]]
        rows_of_positives, present = find_positions(self._item_ids, ids)
        leaders = np.full(ids.size, -1)
        leaders[rows_of_positives[present]] = self._leader_of_item[present]
        starts = range(0, ids.size, TILE_WIDTH)
        totals = np.zeros((2, self.n_pairs), dtype=np.int64)
        with ExitStack() as stack:
            stack.enter_context(one_blas_thread())
            make_tile: Callable[[NDArray[np.float32]], Tile] = partial(HostTile, self._rows)
            threads = threads or workers()
            if self._device is not None:
                torch = torch_on(self._device)
                stack.enter_context(full_precision(torch, self._device))
                make_tile = partial(DeviceTile, torch, torch.tensor(self._rows, device=self._device))
                threads = min(threads, MOST_DEVICE_WORKERS)
            pool = stack.enter_context(ThreadPoolExecutor(threads))
            count = partial(self._count_tile, ids, vectors, segments, leaders, make_tile)
            for counts in pool.map(count, starts):
                totals += counts
        return ShardCounts(totals[0], totals[1], covered, self.digest)

    def ranks(self, counts: ShardCounts) -> PositiveRanks:
        """Ranks from the counts of all shards.

        Raises:
            MissingIds: the counts do not cover the gallery.
            DataError: they were made by another gallery.
        """
        refuse_other_gallery(self.digest, counts.gallery)
        covered = np.unpackbits(counts.covered, count=self._merged.gallery_ids.size).astype(bool)
        if not covered.all():
            raise MissingIds(
                f"{np.count_nonzero(~covered)} of {covered.size} gallery items are in no shard, the first: "
                f"{self._merged.gallery_ids[~covered][0]}. Count the remaining shards and add them."
            )
        segments = self._merged.segments[self._merged.items][:, None]
        in_segment = segments == np.arange(self._merged.n_segments)
        at_least, above = (np.where(in_segment, column[:, None], 0) for column in (counts.at_least, counts.above))
        return rank_positives(self._merged.shares[""], Counts(self._pair_scores, at_least, above))

    def _cover(self, ids: IntArray, vectors: NDArray[Any]) -> NDArray[np.uint8]:
        """Which gallery items a shard holds, eight per byte."""
        gallery_ids = self._merged.gallery_ids
        width = self._rows.shape[1]
        check_vector_type("a shard's vectors", vectors.dtype)
        if vectors.shape != (ids.size, width):
            raise MalformedRun(
                f"a shard of {ids.size} ids has vectors of shape {vectors.shape}; need {(ids.size, width)}"
            )
        indices, present = find_positions(ids, gallery_ids)
        if not present.all():
            raise DataError(
                f"the shard has {np.count_nonzero(~present)} items outside the gallery, the first: {ids[~present][0]}"
            )
        covered = np.zeros(gallery_ids.size, dtype=bool)
        covered[indices] = True
        if np.count_nonzero(covered) != ids.size:
            raise DataError("the shard repeats an id; every item must be counted once")
        return np.packbits(covered)

    def _prepare(self, embeddings: Embeddings, ids: IntArray, kind: str) -> NDArray[np.float32]:
        indices, present = find_positions(ids, embeddings.ids)
        if not present.all():
            raise MissingIds(
                f"{np.count_nonzero(~present)} of {ids.size} {kind} have no vector, the first: {ids[~present][0]}. "
                "Encode these items too."
            )
        out = np.empty((ids.size, embeddings.vectors.shape[1]), dtype=np.float32)
        zero = prepare(embeddings.vectors, self._similarity, indices, np.arange(ids.size), out)
        refuse_zero_vectors(embeddings.ids[zero], ids.size, kind)
        return out

    def _hash(self) -> str:
        """The SHA-256 hex digest of all that counts depend on, but the shards."""
        digest = hashlib.sha256(f"{self._similarity} {self._merged.without_self}".encode())
        merged = self._merged
        judged = merged.query_ids, merged.gallery_ids, merged.segments, merged.queries, merged.items
        competes = merged.shares[""].competes
        vectors = self._rows, self._distinct, self._leader_of_item, self._pair_scores
        arrays: list[NDArray[Any]] = [*judged, competes, *vectors]
        for array in arrays:
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _count_tile(
        self,
        ids: IntArray,
        vectors: NDArray[Any],
        segments: IntArray,
        leaders: IntArray,
        make_tile: Callable[[NDArray[np.float32]], Tile],
        left: int,
    ) -> IntArray:
        """(2, P) items of a tile at least as high as each positive, and above it."""
        part = slice(left, left + TILE_WIDTH)
        ids = ids[part]
        segments = segments[part]
        items = _prepare_tile(ids, vectors[part], self._similarity)
        refuse_extremes(self._similarity, self._rows, items[: ids.size], self._merged.query_ids, ids)
        first = find_leaders(np.concatenate([self._distinct, items[: ids.size]]))[len(self._distinct) :]
        _refuse_other_vectors(ids[(leaders[part] >= 0) & (leaders[part] != first)])
        twins = np.flatnonzero(first < len(self._distinct))
        counts = np.zeros((2, self.n_pairs), dtype=np.int64)
        tile = make_tile(items)
        for start in range(0, len(self._rows), tile.rows_at_once):
            rows = slice(start, min(start + tile.rows_at_once, len(self._rows)))
            block = tile.multiply(rows)
            block[:, tile.move(twins)] = tile.move(self._scores[rows][:, first[twins]])
            block[:, ids.size :] = -np.inf
            if self._merged.n_segments > 1:
                block[:, : ids.size][tile.move(~self._merged.shares[""].competes[rows][:, segments])] = -np.inf
            if self._merged.without_self:
                columns, present = find_positions(self._merged.query_ids[rows], ids)
                block[tile.move(np.flatnonzero(present)), tile.move(columns[present])] = -np.inf
            pairs = slice(*np.searchsorted(self._merged.queries, [start, rows.stop]).tolist())
            counts[:, pairs] = tile.count(block, self._merged.queries[pairs] - start, self._pair_scores[pairs])
        return counts


@dataclass(frozen=True, slots=True, eq=False)
class ShardCounts:
    """Counts of a shard of the gallery for P positive pairs; ``+`` adds disjoint shards.

    Attributes:
        at_least: (P,) items that score at least as high, including the positive if it is in the shard.
        above: (P,) items that score higher.
        covered: the gallery items that the shard holds, eight per byte.
        gallery: digest of the :class:`LargeGallery` that counted. It differs for other queries, judgments, positives or
            another similarity, and for processors that round the positives' scores differently.
    """

    at_least: IntArray
    above: IntArray
    covered: NDArray[np.uint8]
    gallery: str

    def __add__(self, other: ShardCounts) -> ShardCounts:
        """Counts of both shards, which must be of one gallery and have no items in common."""
        refuse_other_gallery(self.gallery, other.gallery)
        common = int(np.unpackbits(self.covered & other.covered).sum())
        if common:
            raise DataError(f"two shards have {common} items in common; every item must be counted once")
        covered = self.covered | other.covered
        return ShardCounts(self.at_least + other.at_least, self.above + other.above, covered, self.gallery)

    def save(self, path: str | Path) -> None:
        """Write the counts to a ``.npz`` file, which appears whole or not at all; its folder is made if needed."""
        arrays: dict[str, NDArray[Any]] = {
            "at_least": self.at_least,
            "above": self.above,
            "covered": self.covered,
            "gallery": np.array(self.gallery),
        }
        with replaced_file(Path(path)) as part:
            write_npz(part, arrays)

    @classmethod
    def load(cls, path: str | Path, gallery: LargeGallery) -> ShardCounts:
        """Read what :meth:`save` wrote, for the gallery that counted.

        Raises:
            NoSuchFile: there is no such file.
            MalformedRun: the file is damaged, has other arrays, or was counted by another gallery.
        """
        path = Path(path)
        if not path.is_file():
            raise NoSuchFile(path)
        arrays = read_npz(path)
        shapes = {
            "at_least": (np.int64, (gallery.n_pairs,)),
            "above": (np.int64, (gallery.n_pairs,)),
            "covered": (np.uint8, (-(-gallery.n_items // 8),)),
        }
        if arrays.keys() != {*shapes, "gallery"}:
            raise MalformedRun(
                f"{path}: holds {sorted(arrays) or 'no array'}, not the counts of a shard. {COUNT_AGAIN}"
            )
        digest = read_entry(path, arrays["gallery"], "gallery")
        if digest != gallery.digest:
            raise MalformedRun(f"{path}: {OTHER_GALLERY} {COUNT_AGAIN}")
        for name, (kind, shape) in shapes.items():
            array = arrays[name]
            if array.dtype != kind or array.shape != shape:
                raise MalformedRun(
                    f"{path}, {name}: found {array.dtype} of shape {array.shape}, expected {np.dtype(kind)} of shape "
                    f"{shape}. {COUNT_AGAIN}"
                )
        counts = cls(arrays["at_least"], arrays["above"], arrays["covered"], digest)
        n_items = int(np.unpackbits(counts.covered).sum())
        if np.any((counts.above < 0) | (counts.above > counts.at_least) | (counts.at_least > n_items)):
            raise MalformedRun(f"{path}: has counts that no shard of {n_items} items has. {COUNT_AGAIN}")
        return counts


OTHER_GALLERY = (
    "was counted for other queries, judgments or positives, by another similarity, or on a processor that rounds "
    "differently."
)
COUNT_AGAIN = "Remove the file and count its shard again, or name another folder."


def refuse_other_gallery(digest: str, other: str) -> None:
    """Raise DataError unless both are the digest of one gallery."""
    if digest != other:
        raise DataError(f"a shard {OTHER_GALLERY} Count all shards with one LargeGallery.")


def _refuse_other_vectors(ids: IntArray) -> None:
    """Raise MalformedRun if there are positives whose vector in a shard is not the one that was scored."""
    if ids.size:
        raise MalformedRun(
            f"{ids.size} positives of a tile have other vectors in the shard than among the positives, the first: "
            f"{ids[0]}. Take the positives from the shards themselves: a vector in another precision is another one"
        )


def _prepare_tile(ids: IntArray, vectors: NDArray[Any], similarity: str) -> NDArray[np.float32]:
    """Prepared gallery vectors, padded with zeros to a multiple of eight."""
    single = Embeddings(ids, vectors).vectors
    out = np.zeros((-(-ids.size // ALIGNMENT) * ALIGNMENT, single.shape[1]), dtype=np.float32)
    for start in range(0, ids.size, ROWS_PREPARED_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_PREPARED_AT_ONCE, ids.size))
        refuse_zero_vectors(ids[prepare(single, similarity, rows, rows, out)], ids.size, "items of a tile")
    return out
