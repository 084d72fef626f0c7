"""One pass over a side: the shards that are missing, shared over the processes and joined, and what was cut."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from cxc_eccv.encoding.processes import Processes
from cxc_eccv.encoding.work.output_path import parts_folder
from cxc_eccv.encoding.work.shards import FolderStore, MemoryStore, Notes, Shard, Store, fingerprint
from cxc_eccv.errors import DataError
from cxc_eccv.types import Embeddings, IntArray
from cxc_eccv.writing import replaced_file

__all__ = ["Side", "encoded", "record_path", "remarks", "warn_of", "write_whole"]


class Side(Protocol):
    """Images or captions."""

    name: str
    shard_size: int
    ids: IntArray

    def identity(self, part: slice) -> list[Any]:
        """What makes these items others than items of the same ids."""

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """Encode slices, in their order."""


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


NAMED = 20
"""Images that a warning names; the record names all."""


def remarks(notes: Notes) -> list[str]:
    """A sentence for everything that was cut, converted or left out.

    Example:
        >>> remarks(Notes(truncated=2, converted={"CMYK": 1, "L": 9}))
        ["2 captions are longer than the model's context and were cut", \
'10 images were not RGB and were converted: CMYK 1, L 9']
    """
    found = []
    if notes.truncated:
        found.append(f"{notes.truncated} captions are longer than the model's context and were cut")
    if notes.converted:
        modes = ", ".join(f"{mode} {count}" for mode, count in sorted(notes.converted.items()))
        found.append(f"{sum(notes.converted.values())} images were not RGB and were converted: {modes}")
    if notes.skipped:
        named = "; ".join(f"{number}: {why}" for number, why in list(notes.skipped.items())[:NAMED])
        more = f"; and {len(notes.skipped) - NAMED} more" if len(notes.skipped) > NAMED else ""
        found.append(f"{len(notes.skipped)} images were left out and have no vector: {named}{more}")
    return found


def warn_of(notes: Notes, stacklevel: int = 3) -> None:
    """One warning for each of the :func:`remarks`."""
    for remark in remarks(notes):
        warnings.warn(remark, stacklevel=stacklevel)


def record_path(output: Path) -> Path:
    """Where the record of an output is.

    Example:
        >>> record_path(Path("runs/clip.npz")).name
        'clip.encoding.json'
    """
    return output.with_name(f"{output.stem}.encoding.json")


def write_whole(output: Path, write: Callable[[Path], None], notes: Notes, **facts: Any) -> None:  # noqa: ANN401
    """Write an output and a record of facts and notes beside it, and remove the shards that it was made of.

    Args:
        output: the file of embeddings, scores or rankings.
        write: writes it, as a whole or not at all.
        notes: what happened on the way.
        **facts: model and settings; anything JSON can hold.

    Raises:
        WriteFailed: one of the files cannot be written.
    """
    # A process that is killed here leaves an output without a record, and none with that of another model.
    record_path(output).unlink(missing_ok=True)
    write(output)
    text = json.dumps({**facts, **asdict(notes)}, indent=2, ensure_ascii=False)
    with replaced_file(record_path(output)) as part:
        part.write_text(text + "\n", encoding="utf-8")
    shutil.rmtree(parts_folder(output))
