"""Work in shards: slices of the items that processes share, and that are kept until the output is complete.

After a kill, finished shards are reused if the fingerprint of model, settings and items is the same.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tqdm import tqdm

from cxc_eccv.encoding.memory import warn_of_memory
from cxc_eccv.encoding.processes import Processes
from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.runs.embeddings import read_npz, write_npz
from cxc_eccv.runs.run import record_path, write_record
from cxc_eccv.types import Embeddings, IntArray
from cxc_eccv.writing import cache_held, locked, replaced_file, resumable

MOST_NAMED_IMAGES = 20
"""Most images that a warning names; the record names all."""


@dataclass
class Notes:
    """Number of texts that were cut, mode to number of converted images, and id to reason of skipped images."""

    truncated: int = 0
    converted: dict[str, int] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)

    @classmethod
    def join(cls, parts: Sequence[Notes]) -> Notes:
        """Add several notes."""
        converted = Counter[str]()
        skipped: dict[int, str] = {}
        for part in parts:
            converted.update(part.converted)
            skipped |= part.skipped
        return cls(sum(part.truncated for part in parts), dict(sorted(converted.items())), skipped)

    def remarks(self) -> list[str]:
        """Sentences about the items that were cut, converted or skipped."""
        sentences = []
        if self.truncated:
            sentences.append(f"{self.truncated} captions are longer than the model's context and were cut")
        if self.converted:
            modes = ", ".join(f"{mode} {count}" for mode, count in sorted(self.converted.items()))
            sentences.append(f"{sum(self.converted.values())} images were not RGB and were converted: {modes}")
        if self.skipped:
            named = "; ".join(f"{number}: {why}" for number, why in list(self.skipped.items())[:MOST_NAMED_IMAGES])
            more = (
                f"; and {len(self.skipped) - MOST_NAMED_IMAGES} more" if len(self.skipped) > MOST_NAMED_IMAGES else ""
            )
            sentences.append(f"{len(self.skipped)} images were left out and have no vector: {named}{more}")
        return sentences


@dataclass(frozen=True)
class Shard:
    """Encoded items: (N,) ids, (N, D) vectors, and notes, also about items without a vector."""

    ids: IntArray
    vectors: NDArray[np.float32]
    notes: Notes


class FolderStore:
    """Finished shards of a side in files; ``refused`` counts files that are damaged or have another fingerprint."""

    def __init__(self, folder: Path, side: str) -> None:
        self._folder = folder
        self._side = side
        self.refused = 0

    def get(self, start: int, fingerprint: str) -> Shard | None:
        """The shard that begins with item ``start``, or None; deletes a file that cannot be used."""
        path = self._path(start)
        if not path.is_file():
            return None
        with suppress(MalformedRun, KeyError, ValueError):
            arrays = read_npz(path)  # its archive has a checksum per array
            about = json.loads(arrays["about"].tobytes())
            if about.pop("fingerprint") == fingerprint and len(arrays["ids"]) == len(arrays["vectors"]):
                skipped = {int(number): why for number, why in about.pop("skipped").items()}
                return Shard(arrays["ids"], arrays["vectors"], Notes(**about, skipped=skipped))
        self.refused += 1
        path.unlink(missing_ok=True)
        return None

    def put(self, start: int, fingerprint: str, shard: Shard) -> None:
        """Keep a shard."""
        self._folder.mkdir(parents=True, exist_ok=True)  # not before: a model that cannot encode leaves nothing
        about = np.frombuffer(json.dumps({"fingerprint": fingerprint, **asdict(shard.notes)}).encode(), dtype=np.uint8)
        with replaced_file(self._path(start)) as part:
            write_npz(part, {"ids": shard.ids, "vectors": shard.vectors, "about": about})

    def _path(self, start: int) -> Path:
        return self._folder / f"{self._side}-{start:09d}.npz"


def fingerprint(*parts: Any) -> str:  # noqa: ANN401 - anything JSON can hold
    """The SHA-256 hex digest of values in JSON.

    Example:
        >>> fingerprint("model", {"pooling": "cls"}, [1, 2])[:8]
        'e338b0f4'
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def image_identity(source: Path | Image.Image) -> list[Any]:
    """Name, size and time of a file; mode, size and hash of an image in memory."""
    if isinstance(source, Image.Image):
        return [source.mode, source.size, hashlib.sha256(source.tobytes()).hexdigest()]
    try:
        state = source.stat()
    except OSError:
        return [source.name, "missing"]
    return [source.name, state.st_size, state.st_mtime_ns]


class Side(Protocol):
    """Images, captions, or pairs of them."""

    name: str
    shard_size: int
    ids: IntArray

    def identity(self, part: slice) -> list[Any]:
        """What identifies the content of these items, beside their ids."""

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """Encode slices in order."""


@overload
def encode_side(
    side: Side,
    output: Path | None,
    processes: Processes,
    *,
    key: str,
    progress: bool,
    verb: str = ...,
    everywhere: Literal[True],
) -> tuple[Embeddings, Notes]: ...


@overload
def encode_side(
    side: Side,
    output: Path | None,
    processes: Processes,
    *,
    key: str,
    progress: bool,
    verb: str = ...,
    n_items: int | None = ...,
) -> tuple[Embeddings | None, Notes]: ...


def encode_side(
    side: Side,
    output: Path | None,
    processes: Processes,
    *,
    key: str,
    progress: bool,
    verb: str = "encoding",
    everywhere: bool = False,
    n_items: int | None = None,
) -> tuple[Embeddings | None, Notes]:
    """The vectors of a side and notes about its items; process i modulo their number encodes shard i.

    With an ``output`` the first process joins the shards, and the others have no vectors unless they are wanted
    ``everywhere``. Without it all processes have them. ``n_items`` counts the items of all sides of the run; the first
    process says if they fill the memory.
    """
    store = None if output is None else FolderStore(parts_folder(output), side.name)
    size = side.shard_size
    total = side.ids.size
    parts = {start: slice(start, min(start + size, total)) for start in range(0, total, size)}
    mine = dict(list(parts.items())[processes.rank :: processes.count])
    shards: dict[int, Shard] = {}
    keys: dict[int, str] = {}
    finished: set[int] = set()
    if store is not None:
        keys = {
            start: fingerprint(key, side.name, side.ids[part].tolist(), side.identity(part))
            for start, part in parts.items()
        }
        finished = {start for start in mine if store.get(start, keys[start]) is not None}
    missing = [part for start, part in mine.items() if start not in finished]
    done = sum(mine[start].stop - start for start in finished)
    options: dict[str, Any] = {"unit": side.name.removesuffix("s"), "disable": not progress or processes.rank > 0}
    with tqdm(total=sum(part.stop - part.start for part in mine.values()), initial=done, **options) as bar:
        bar.set_description(f"{verb} {side.name}")
        for part, shard in zip(missing, side.shards(missing), strict=True):
            if n_items is not None and part is missing[0] and not processes.rank:
                warn_of_memory(n_items, shard.vectors.shape[-1])
            if store is None:
                shards[part.start] = shard
            else:
                store.put(part.start, keys[part.start], shard)
            bar.update(part.stop - part.start)
    if store is None:
        return _join(side, _exchange(shards, list(parts), processes))
    if store.refused:
        warnings.warn(
            f"{store.refused} kept shards of {side.name} were damaged, or of another model, other settings or "
            "other items; they were encoded again",
            stacklevel=3,
        )
    processes.wait()
    if processes.rank and not everywhere:
        return None, Notes()
    return _join(side, (store.get(start, keys[start]) for start in parts))


def _exchange(shards: dict[int, Shard], starts: Sequence[int], processes: Processes) -> Iterator[Shard | None]:
    """All shards in order on every process, which hands on one of its own at a time and lets it go."""
    for first in range(0, len(starts), processes.count):
        place = first + processes.rank
        own = shards.pop(starts[place]) if place < len(starts) else None
        yield from processes.gather(own)[: len(starts) - first]


def _join(side: Side, shards: Iterable[Shard | None]) -> tuple[Embeddings, Notes]:
    """The vectors of shards in order, each copied into its place in one array and let go."""
    ids = np.empty(side.ids.size, dtype=np.int64)
    vectors: NDArray[np.float32] | None = None
    notes: list[Notes] = []
    filled = 0
    for shard in shards:
        if shard is None:
            raise DataError(f"shards of {side.name} were deleted while they were joined; run the command again")
        notes.append(shard.notes)
        if not shard.ids.size:
            continue
        if vectors is None:
            vectors = np.empty((side.ids.size, shard.vectors.shape[1]), dtype=np.float32)
        rows = slice(filled, filled + shard.ids.size)
        ids[rows] = shard.ids
        vectors[rows] = shard.vectors
        filled = rows.stop
    joined = Notes.join(notes)
    if vectors is None:
        number, why = next(iter(joined.skipped.items()))
        raise DataError(f"none of the {len(joined.skipped)} images can be read; the first is {number}: {why}")
    return Embeddings(ids[:filled], vectors[:filled]), joined


@contextmanager
def lock_output(path: Path | None, processes: Processes, *, cache: bool = False) -> Iterator[Path | None]:
    """Lock the output on the first process; yields its path, or None if a ``cache`` cannot be written."""
    with ExitStack() as stack:
        if path is not None and not processes.rank:
            if not cache:
                stack.enter_context(locked(parts_folder(path)))
            elif not stack.enter_context(cache_held(parts_folder(path))):
                path = None
        shared = processes.gather(path)[0] if cache else path
        if shared is None:
            yield None
        else:
            with resumable(f"Finished parts are kept in {parts_folder(shared)}; the same command continues from them."):
                yield shared


def write_output(
    processes: Processes,
    output: Path | None,
    write: Callable[[Path], None],
    notes: Notes,
    facts: Mapping[str, Any],
) -> None:
    """On the first process, warn about the notes, write the output and its record, and remove the shards."""
    processes.wait()
    if processes.rank == 0:
        for remark in notes.remarks():
            warnings.warn(remark, stacklevel=3)
    if processes.rank == 0 and output is not None:
        # A process killed here leaves an output without a record, never one with the record of another model.
        record_path(output).unlink(missing_ok=True)
        write(output)
        write_record(output, {**facts, **asdict(notes)})
        remove_parts(output)
    processes.wait()


def remove_parts(output: Path) -> None:
    """Remove the folder of finished shards of an output."""
    shutil.rmtree(parts_folder(output), ignore_errors=True)


def parts_folder(output: Path) -> Path:
    """The folder for the finished shards of an output."""
    return output.with_name(f"{output.name}.parts")
