"""Embeddings files: ``.npz`` or ``.safetensors`` with ids and vectors of images, captions, or both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.checks import checked_embeddings, refuse_unreadable, sha256_of
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.runs.npz import read_npz, write_npz
from cxc_eccv.runs.safetensors import read_safetensors, write_safetensors
from cxc_eccv.types import Embeddings
from cxc_eccv.writing import replaced_file

__all__ = ["embeddings_of_arrays", "load_embeddings", "save_embeddings"]

PAIRS = {"images": ("image_ids", "image_embeddings"), "captions": ("caption_ids", "caption_embeddings")}
SIMILARITY = "similarity"
"""Name of the entry that says what the vectors are meant for: a text in ``.npz``, metadata in ``.safetensors``."""

FORMATS = (".npz", ".safetensors")


def load_embeddings(path: str | Path) -> EmbeddingsRun:
    """Read and check an embeddings file.

    The file holds ``image_ids`` (N,) and ``caption_ids`` (M,), any integer type, with ``image_embeddings`` (N, D)
    and ``caption_embeddings`` (M, D), any real type; a text-only or image-only file has just its pair. Vectors become
    float32; pickled objects are never loaded. At will ``similarity`` says ``cosine`` or ``dot``: a text in ``.npz``, an
    entry of the metadata in ``.safetensors``.

    Args:
        path: a ``.npz`` or ``.safetensors`` file.

    Raises:
        MalformedRun: unreadable, cut short or damaged; an array is missing, empty, of the wrong type or shape; ids
            repeat; a value is NaN or infinite, or a vector too small for float32; an unknown similarity. The message
            names file, array, place and remedy.

    Example:
        >>> import numpy as np
        >>> run = EmbeddingsRun(None, Embeddings([7, 8], np.eye(2)))
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_embeddings(Path(folder) / "text.npz", run)
        ...     load_embeddings(Path(folder) / "text.npz").captions.ids.tolist()
        [7, 8]
    """
    path = Path(path)
    suffix = _suffix(path)
    refuse_unreadable(path)
    if suffix == ".npz":
        return embeddings_of_arrays(path, read_npz(path), sha256_of(path))
    arrays, metadata = read_safetensors(path)
    return embeddings_of_arrays(path, arrays, sha256_of(path), metadata.get(SIMILARITY))


def embeddings_of_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], sha256: str, similarity: str | None = None
) -> EmbeddingsRun:
    """The run that the arrays of a file make.

    Args:
        path: the file.
        arrays: by name; a text ``similarity`` may be among them.
        sha256: of the file.
        similarity: what the file's metadata says.

    Raises:
        MalformedRun: see :func:`load_embeddings`.
    """
    if SIMILARITY in arrays:
        given = arrays[SIMILARITY]
        similarity = str(given.item() if given.size == 1 else given.tolist())
    sides = {side: _side(path, arrays, *names) for side, names in PAIRS.items()}
    if not any(sides.values()):
        wanted = " or ".join(f"{ids} with {vectors}" for ids, vectors in PAIRS.values())
        raise MalformedRun(f"{path}: holds {sorted(arrays) or 'no array'}; needs {wanted}")
    return EmbeddingsRun(**sides, path=path, sha256=sha256, similarity=similarity)


def save_embeddings(path: str | Path, run: EmbeddingsRun) -> None:
    """Write a run so that :func:`load_embeddings` reads the same arrays back; replaces ``path`` in one step.

    Args:
        path: a ``.npz`` or ``.safetensors`` file; its folder is made where it is not there.
        run: the vectors to write.

    Raises:
        MalformedRun: the suffix is neither of the two.
        InvalidOption: ``path`` is a folder.
        WriteFailed: it cannot be written; what was there is as it was.
    """
    path = Path(path)
    suffix = _suffix(path)
    arrays: dict[str, NDArray[Any]] = {}
    for side, (ids, vectors) in PAIRS.items():
        embeddings: Embeddings | None = getattr(run, side)
        if embeddings is not None:
            arrays |= {ids: embeddings.ids, vectors: embeddings.vectors}
    with replaced_file(path) as part:
        _write(part, suffix, arrays, run.similarity)


def _write(path: Path, suffix: str, arrays: Mapping[str, NDArray[Any]], similarity: str | None) -> None:
    entry = {} if similarity is None else {SIMILARITY: similarity}
    if suffix == ".npz":
        write_npz(path, {**arrays, **{name: np.array(text) for name, text in entry.items()}})
    else:
        write_safetensors(path, arrays, entry)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise MalformedRun(f"{path}: unknown embeddings format {suffix!r}; use {' or '.join(FORMATS)}")
    return suffix


def _side(path: Path, arrays: Mapping[str, NDArray[Any]], ids: str, vectors: str) -> Embeddings | None:
    present = [name for name in (ids, vectors) if name in arrays]
    if not present:
        return None
    if len(present) == 1:
        missing = vectors if present == [ids] else ids
        raise MalformedRun(f"{path}: has {present[0]!r} but not {missing!r}; save both, row by row in the same order")
    return checked_embeddings(path, ids, arrays[ids], vectors, arrays[vectors])
