"""The processes that torchrun started, their communication, and ranks in a gallery of which each holds a shard."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption, MissingIds
from cxc_eccv.ranking.large_gallery import LargeGallery, ShardCounts, refuse_other_gallery
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.runs.run import QUERY
from cxc_eccv.types import Embeddings, IntArray, Judgments, PositiveRanks, find_sides

GROUP_NUMBERS = itertools.count()
"""Counts the groups that this process has made; all processes make the same ones."""

PROCESS_TIMEOUT = timedelta(days=7)
"""How long a process waits for the others: the slowest may have far more work, and torch's 30 minutes abort the run."""


class Processes:
    """This process among those of the run: its ``rank``, 0 for the one that writes, and their ``count``."""

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank = rank
        self.count = count

    def wait(self) -> None:
        """Return once all processes are here."""
        if self.count > 1:
            dist.barrier()

    def gather(self, value: Any) -> list[Any]:  # noqa: ANN401 - any picklable value of our own processes
        """The values of all processes in the order of their ranks, on every process."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def total(self, counts: IntArray) -> IntArray:
        """Sums over the processes, on every process: one all-reduce."""
        if self.count == 1:
            return counts
        place = "cuda" if dist.get_backend() == "nccl" else "cpu"
        tensor = torch.from_numpy(np.ascontiguousarray(counts, dtype=np.int64)).clone().to(place)
        dist.all_reduce(tensor)
        return np.asarray(tensor.cpu().numpy())


def current_processes() -> Processes:
    """The processes of the current group, else this process alone."""
    if dist.is_available() and dist.is_initialized():
        return Processes(dist.get_rank(), dist.get_world_size())
    return Processes()


@contextmanager
def join_processes() -> Iterator[Processes]:
    """The processes of the current group, else of torchrun in a group for this context, else this process alone.

    In a group made here a process waits up to seven days for the others. A current group keeps its own timeout.
    """
    if dist.is_available() and dist.is_initialized():
        yield current_processes()
    elif int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ:
        _make_group()
        try:
            yield current_processes()
            # Without it, a process that ends early would close the connection of the others.
            dist.barrier()
        finally:
            dist.destroy_process_group()
    else:
        yield Processes()


def leave_group() -> None:
    """End the group that a Trainer made: at the exit of Python the threads of a group that is still there may abort."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def _make_group() -> None:
    # torchrun's store outlives a group, so each group gets a part of it; otherwise it would meet old addresses.
    # Imported here, as not every build of torch has these.
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, rank, count = next(iter(rendezvous("env://", timeout=PROCESS_TIMEOUT)))
    part = PrefixStore(f"cxc_eccv/{next(GROUP_NUMBERS)}", store)
    dist.init_process_group("gloo", store=part, rank=rank, world_size=count, timeout=PROCESS_TIMEOUT)


def local_rank() -> int:
    """The number of this process on its machine; 0 without torchrun."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def sharded_ranks(
    queries: Embeddings,
    judgments: Judgments,
    ids: IntArray,
    vectors: NDArray[Any],
    *,
    similarity: str = "cosine",
) -> PositiveRanks:
    """Ranks of all positives from a gallery split over processes, the same on every process.

    Every process calls this with all queries and its shard of the gallery. The processes exchange the vectors of the
    positives and two counts per positive pair. Without torchrun the shard is the whole gallery.

    Args:
        queries: vectors of all queries.
        judgments: the same on every process; with folds, queries rank the items of their fold (COCO 1K).
        ids: (C,) gallery ids of this process's shard; shards must be disjoint.
        vectors: (C, D) float16, float32 or float64, in memory or memory-mapped.
        similarity: ``cosine`` or ``dot``.

    Raises:
        DataError: an item is in two shards, or not in the gallery.
        MissingIds: a query has no vector, or a gallery item is in no shard.

    Example:
        >>> ids, vectors = np.array([7, 8, 9]), np.array([[3, 4], [4, 3], [3, 4]], dtype=np.float16)
        >>> qrels = Judgments.from_pairs([1], ids, [1], [7])
        >>> sharded_ranks(Embeddings([1], [[1.0, 0.0]]), qrels, ids, vectors).ranks.tolist()
        [3]
    """
    with join_processes() as processes:
        positives = _positives(judgments, ids, vectors, processes)
        gallery = LargeGallery(queries, judgments, positives, similarity=similarity)
        return gallery.ranks(_add_up(gallery.count(ids, vectors), processes))


def split_ranks(
    run: EmbeddingsRun, direction: str, judgments: Judgments, *, similarity: str | None = None
) -> PositiveRanks:
    """Ranks of a run that every process has loaded; each process counts its share of the gallery.

    Args:
        run: vectors of the queries and the gallery.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        judgments: with folds, queries rank the items of their fold (COCO 1K).
        similarity: ``cosine`` or ``dot``; None for that of the run, or cosine.

    Raises:
        InvalidOption: the run cannot be ranked in this direction.
        MissingIds: the run lacks queries or gallery items.
    """
    reason = run.why_not(direction)
    if reason is not None:
        raise InvalidOption(f"{direction}: {reason}")
    similarity = run.choose_similarity(similarity)
    query_side, gallery_side = find_sides(direction)
    queries = run.find_vectors(query_side, QUERY)
    items = run.find_vectors(gallery_side)
    assert queries is not None  # noqa: S101 - why_not says so
    assert items is not None  # noqa: S101
    with join_processes() as processes:
        rows = np.flatnonzero(np.isin(items.ids, judgments.gallery_ids))
        share = np.array_split(rows, processes.count)[processes.rank]
        return sharded_ranks(queries, judgments, items.ids[share], items.vectors[share], similarity=similarity)


def _positives(judgments: Judgments, ids: IntArray, vectors: NDArray[Any], processes: Processes) -> Embeddings:
    here = np.isin(ids, judgments.gallery_ids[np.unique(judgments.indices)])
    parts = processes.gather((ids[here], np.asarray(vectors[here], dtype=np.float32)))
    item_ids, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not item_ids.size:
        raise MissingIds("none of the positives is in a shard; give the ids of this task's gallery")
    if np.unique(item_ids).size != item_ids.size:
        raise DataError("two shards have positives in common; every item must be in one shard")
    return Embeddings(item_ids, rows)


def _add_up(counts: ShardCounts, processes: Processes) -> ShardCounts:
    if processes.count == 1:
        return counts
    for gallery in processes.gather(counts.gallery):
        refuse_other_gallery(counts.gallery, gallery)
    covered = np.zeros_like(counts.covered)
    repeated = np.zeros_like(counts.covered)
    for shard in processes.gather(counts.covered):
        repeated |= covered & shard
        covered |= shard
    if repeated.any():
        raise DataError(f"{np.unpackbits(repeated).sum()} items are in two shards; every item must be counted once")
    at_least, above = processes.total(np.stack([counts.at_least, counts.above]))
    return ShardCounts(at_least, above, covered, counts.gallery)
