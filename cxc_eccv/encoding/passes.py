"""One pass over a side: the shards that are missing, shared out over the processes, and all of them joined."""

from __future__ import annotations

import warnings

import numpy as np
from tqdm import tqdm

from cxc_eccv.encoding.fingerprints import fingerprint
from cxc_eccv.encoding.processes import Processes
from cxc_eccv.encoding.shards import FolderStore, MemoryStore, Notes, Shard, Store
from cxc_eccv.encoding.sides import Side
from cxc_eccv.errors import DataError
from cxc_eccv.types import Embeddings

__all__ = ["encoded"]


def encoded(side: Side, store: Store, processes: Processes, *, key: str, progress: bool) -> tuple[Embeddings, Notes]:
    """The vectors of a side.

    Args:
        side: what to encode.
        store: has the finished shards; on several processes one that they share, or a :class:`MemoryStore` each.
        processes: shard i is encoded by process i modulo their number.
        key: fingerprint of model and settings.
        progress: show a bar, on the first process.

    Raises:
        DataError: every image had to be left out.
    """
    size, total = side.shard_size, side.ids.size
    parts = [slice(start, min(start + size, total)) for start in range(0, total, size)]
    keys = [fingerprint(key, side.name, side.ids[part].tolist(), side.identity(part)) for part in parts]
    pairs = list(zip(parts, keys, strict=True))
    _encode_missing(side, store, pairs[processes.rank :: processes.count], progress and processes.rank == 0)
    if isinstance(store, MemoryStore):
        for shards in processes.gather(dict(store.shards)):
            store.shards.update(shards)
    processes.wait()
    found = [store.get(part.start, key) for part, key in pairs]
    return _joined(side, [shard for shard in found if shard is not None], len(parts))


def _encode_missing(side: Side, store: Store, own: list[tuple[slice, str]], progress: bool) -> None:
    missing = [(part, key) for part, key in own if store.get(part.start, key) is None]
    total, left = (sum(part.stop - part.start for part, _ in some) for some in (own, missing))
    unit = side.name.removesuffix("s")
    with tqdm(total=total, initial=total - left, desc=f"encoding {side.name}", unit=unit, disable=not progress) as bar:
        for (part, key), shard in zip(missing, side.shards([part for part, _ in missing]), strict=True):
            store.put(part.start, key, shard)
            bar.update(part.stop - part.start)
    if isinstance(store, FolderStore) and store.refused:
        warnings.warn(
            f"{store.refused} kept shards of {side.name} were damaged, or of another model, other settings or other "
            "items; they are encoded anew",
            stacklevel=4,
        )


def _joined(side: Side, shards: list[Shard], wanted: int) -> tuple[Embeddings, Notes]:
    notes = Notes.joined([shard.notes for shard in shards])
    full = [shard for shard in shards if shard.ids.size]
    if len(shards) != wanted:
        raise DataError(f"shards of {side.name} vanished while they were joined; run the command again")
    if not full:
        number, why = next(iter(notes.skipped.items()))
        raise DataError(f"none of the {len(notes.skipped)} images can be read, the first, {number}: {why}")
    ids, vectors = (np.concatenate([getattr(shard, name) for shard in full]) for name in ("ids", "vectors"))
    return Embeddings(ids, vectors), notes
