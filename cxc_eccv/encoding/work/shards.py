"""Shards: a slice of the items, encoded; kept in memory, or in files that outlive a kill."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.npz import read_npz, write_npz
from cxc_eccv.types import IntArray
from cxc_eccv.writing import replaced_file

__all__ = [
    "FolderStore",
    "MemoryStore",
    "Notes",
    "Shard",
    "Store",
    "fingerprint",
    "image_identity",
    "processor_state",
    "weights_fingerprint",
]


@dataclass
class Notes:
    """What happened to items on the way.

    Attributes:
        truncated: texts cut at the end of the model's context.
        converted: mode to number of images that were not RGB.
        skipped: id to the reason why the image was left out.
    """

    truncated: int = 0
    converted: dict[str, int] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)

    @classmethod
    def joined(cls, parts: Sequence[Notes]) -> Notes:
        """All of them together.

        Example:
            >>> Notes.joined([Notes(1, {"L": 2}), Notes(2, {"L": 1})])
            Notes(truncated=3, converted={'L': 3}, skipped={})
        """
        modes = sorted({mode for part in parts for mode in part.converted})
        return cls(
            sum(part.truncated for part in parts),
            {mode: sum(part.converted.get(mode, 0) for part in parts) for mode in modes},
            {number: why for part in parts for number, why in part.skipped.items()},
        )


@dataclass(frozen=True)
class Shard:
    """Encoded items.

    Attributes:
        ids: (N,) of those that have a vector.
        vectors: (N, D) float32.
        notes: what happened on the way.
    """

    ids: IntArray
    vectors: NDArray[np.float32]
    notes: Notes


class Store(Protocol):
    """Where finished shards are."""

    def get(self, start: int, fingerprint: str) -> Shard | None:
        """The shard that begins with item ``start``, where it is there, whole, and of this fingerprint."""

    def put(self, start: int, fingerprint: str, shard: Shard) -> None:
        """Keep a shard."""


class MemoryStore:
    """Shards in memory."""

    def __init__(self) -> None:
        self.shards: dict[int, Shard] = {}

    def get(self, start: int, fingerprint: str) -> Shard | None:
        """See :class:`Store`."""
        return self.shards.get(start)

    def put(self, start: int, fingerprint: str, shard: Shard) -> None:
        """See :class:`Store`."""
        self.shards[start] = shard


class FolderStore:
    """Shards in files, each written whole or not at all.

    Args:
        folder: made where it is missing.
        side: first part of the file names.

    Attributes:
        refused: files that were there and are damaged, or of another model, other settings or other items.
    """

    def __init__(self, folder: Path, side: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._side, self.refused = folder, side, 0

    def get(self, start: int, fingerprint: str) -> Shard | None:
        """See :class:`Store`; a file that does not hold up is taken away."""
        path = self._path(start)
        if not path.is_file():
            return None
        try:
            shard = _shard_of(path, fingerprint)
        except (MalformedRun, KeyError, ValueError):
            shard = None
        if shard is None:
            self.refused += 1
            path.unlink(missing_ok=True)
        return shard

    def put(self, start: int, fingerprint: str, shard: Shard) -> None:
        """See :class:`Store`."""
        about = np.frombuffer(json.dumps({"fingerprint": fingerprint, **asdict(shard.notes)}).encode(), dtype=np.uint8)
        with replaced_file(self._path(start)) as part:
            write_npz(part, {"ids": shard.ids, "vectors": shard.vectors, "about": about})

    def _path(self, start: int) -> Path:
        return self._folder / f"{self._side}-{start:09d}.npz"


def _shard_of(path: Path, fingerprint: str) -> Shard | None:
    """None where the file is of another fingerprint; its archive has a checksum per array."""
    arrays = read_npz(path)
    about = json.loads(arrays["about"].tobytes())
    if about.pop("fingerprint") != fingerprint or len(arrays["ids"]) != len(arrays["vectors"]):
        return None
    skipped = {int(number): why for number, why in about.pop("skipped").items()}
    return Shard(arrays["ids"], arrays["vectors"], Notes(**about, skipped=skipped))


def fingerprint(*parts: Any) -> str:  # noqa: ANN401 - anything JSON can hold
    """Hex sha256 of values in JSON.

    Example:
        >>> fingerprint("model", {"pooling": "cls"}, [1, 2])[:8]
        'e338b0f4'
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def weights_fingerprint(model: torch.nn.Module) -> str:
    """Hex sha256 over names, types, shapes and bytes of all weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def image_identity(source: Path | Image.Image) -> list[Any]:
    """Name, size and time of a file, without reading it; the bytes of an image in memory."""
    if isinstance(source, Image.Image):
        return [source.mode, source.size, hashlib.sha256(source.tobytes()).hexdigest()]
    try:
        state = source.stat()
    except OSError:
        return [source.name, "missing"]
    return [source.name, state.st_size, state.st_mtime_ns]


def processor_state(processor: Any) -> str:  # noqa: ANN401 - a tokenizer or an image processor
    """What a tokenizer or an image processor is set to, as text."""
    backend = getattr(processor, "backend_tokenizer", None)
    if backend is not None:
        # How the last call padded and cut is part of its state, and says nothing of the next one.
        content = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
        around = [processor.padding_side, processor.model_max_length, processor.model_input_names]
        return json.dumps([content, *around], sort_keys=True)
    if hasattr(processor, "get_vocab"):
        return json.dumps([type(processor).__name__, processor.get_vocab()], sort_keys=True)
    return str(processor.to_json_string())
