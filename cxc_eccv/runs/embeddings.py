"""Reads and writes the files that hold vectors and other arrays: NumPy archives and safetensors.

Archives are read with checksums and without pickle, and written without time stamps. Safetensors files are read with
bfloat16.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from cxc_eccv.damage import refuse_damaged_run
from cxc_eccv.errors import MalformedRun
from cxc_eccv.hashing import hash_file
from cxc_eccv.runs.run import MODEL, ROLES, EmbeddingsRun, read_entry, refuse_unreadable, whole_ids
from cxc_eccv.types import Embeddings
from cxc_eccv.types.ids import advise_ids, check_ids, check_vectors
from cxc_eccv.writing import replaced_file

ARRAY_PAIRS = {"images": ("image_ids", "image_embeddings"), "captions": ("caption_ids", "caption_embeddings")}

SIMILARITY = "similarity"
"""Entry that names the similarity of the vectors: a text in ``.npz``, metadata in ``.safetensors``."""

FURTHER = "adversarial_"
"""Prefix of further arrays, with other sentences than the captions of the split: ``adversarial_colour_ids``, ..."""

LIKE_A_ROLE = re.compile(r"quer(y|ies)|symmetric", re.IGNORECASE)
"""Parts of names that mean vectors in a role."""

TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "?", "C64": "<c8",
}  # fmt: skip
DTYPE_NAMES = {np.dtype(code): name for name, code in TYPES.items() if name != "BF16"}
FORMATS = (".npz", ".safetensors")


def load_embeddings(path: str | Path) -> EmbeddingsRun:
    """Read and check an embeddings file.

    The file holds ``image_ids`` (N,) and ``caption_ids`` (M,) of any integer type, with ``image_embeddings`` (N, D) and
    ``caption_embeddings`` (M, D) in float16, float32 or float64, in ``.safetensors`` also bfloat16; a text-only or
    image-only file has only one pair. Vectors become float32; pickled objects are never loaded. Optional entries are
    ``similarity`` (``cosine`` or ``dot``) and ``model``, a name: texts in ``.npz``, metadata in ``.safetensors``.
    Vectors of altered sentences have names such as ``adversarial_<kind>_ids`` and ``adversarial_<kind>_embeddings``.

    A model that encodes queries otherwise adds ``caption_query_embeddings`` and ``image_query_embeddings``, row by row
    for the same ids; then ``caption_embeddings`` and ``image_embeddings`` are the gallery's. Rated pairs, whose two
    sides are alike, are compared by ``caption_symmetric_embeddings`` and ``image_symmetric_embeddings`` where a file
    has them, else by the vectors of the gallery.

    Args:
        path: a ``.npz`` or ``.safetensors`` file.

    Raises:
        MalformedRun: the file is unreadable, cut short or damaged; an array is missing, empty, or of the wrong type or
            shape; ids repeat; a value is NaN or infinite, or a vector too small for float32; or the similarity is
            unknown. The message names file, array, place and remedy.

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
    _check_suffix(path)
    refuse_unreadable(path)
    return make_embeddings(path, *read_arrays(path))


def make_embeddings(
    path: Path | None, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> EmbeddingsRun:
    """The run from arrays, those of a file if it has a path; similarity and model are arrays or metadata."""
    where = path or "run"
    similarity, model = find_texts(where, arrays, metadata)
    sides = {side: read_side(where, arrays, *names) for side, names in ARRAY_PAIRS.items()}
    further = check_further(where, arrays)
    roles = _read_roles(where, arrays, sides)
    if not any(sides.values()) and not further:
        wanted = " or ".join(f"{ids} with {vectors}" for ids, vectors in ARRAY_PAIRS.values())
        raise MalformedRun(f"{where}: holds {sorted(arrays) or 'no array'}; needs {wanted}")
    return EmbeddingsRun(
        sides["images"],
        sides["captions"],
        path=path,
        sha256=None if path is None else hash_file(path),
        similarity=similarity,
        model=model,
        further=further,
        roles=roles,
    )


def _read_roles(
    path: Path | str, arrays: Mapping[str, NDArray[Any]], sides: Mapping[str, Embeddings | None]
) -> dict[str, Embeddings]:
    """The checked vectors of queries and of rated pairs, with the ids of their side."""
    known = [f"{name}_embeddings" for name in chain.from_iterable(ROLES.values())]
    for name in arrays:
        if LIKE_A_ROLE.search(name) and name not in known and not name.startswith(FURTHER):
            raise MalformedRun(f"{path}: unknown entry {name!r}; name vectors in a role {', '.join(known)}")
    roles: dict[str, Embeddings] = {}
    for side, names in ROLES.items():
        gallery = sides[side]
        for name in names:
            entry = f"{name}_embeddings"
            if entry not in arrays:
                continue
            if gallery is None:
                ids, vectors = ARRAY_PAIRS[side]
                raise MalformedRun(
                    f"{path}: has {entry!r} but not {ids!r} with {vectors!r}, the vectors of the gallery; save both, "
                    "row by row in the same order"
                )
            roles[name] = Embeddings(gallery.ids, check_vectors(path, entry, arrays[entry], gallery.ids))
    return roles


def find_texts(
    path: Path | str, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> tuple[str | None, str | None]:
    """The similarity and the model, which are arrays or metadata."""
    entries = dict(metadata)
    if SIMILARITY in arrays:
        text = arrays[SIMILARITY]
        entries[SIMILARITY] = str(text.item() if text.size == 1 else text.tolist())
    if MODEL in arrays:
        entries[MODEL] = read_entry(path, arrays[MODEL], MODEL)
    return entries.get(SIMILARITY), entries.get(MODEL)


def check_further(path: Path | str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of altered sentences: ids as int64, vectors as finite float32."""
    checked: dict[str, NDArray[Any]] = {}
    for name in sorted(name for name in arrays if name.startswith(FURTHER)):
        if name.endswith("_ids"):
            checked[name] = whole_ids(arrays[name], f"{path}, {name}").astype(np.int64)
        elif name.endswith("_embeddings"):
            checked[name] = check_vectors(
                path, name, arrays[name], np.arange(arrays[name].shape[0] if arrays[name].ndim else 0)
            )
        else:
            raise MalformedRun(f"{path}, {name}: is neither ids (..._ids) nor vectors (..._embeddings); leave it out")
    return checked


def save_embeddings(path: str | Path, run: EmbeddingsRun) -> None:
    """Write an embeddings file that :func:`load_embeddings` reads; replaces ``path`` in one step.

    Args:
        path: a ``.npz`` or ``.safetensors`` file; its folder is created if needed.
        run: the vectors to write.

    Raises:
        MalformedRun: the suffix is neither of the two.
        InvalidOption: ``path`` is a folder.
        WriteFailed: another process is writing the file.
    """
    path = Path(path)
    _check_suffix(path)
    arrays: dict[str, NDArray[Any]] = {}
    for side, (ids, vectors) in ARRAY_PAIRS.items():
        embeddings: Embeddings | None = getattr(run, side)
        if embeddings is not None:
            arrays |= {ids: embeddings.ids, vectors: embeddings.vectors}
    arrays |= {f"{name}_embeddings": embeddings.vectors for name, embeddings in run.roles.items()}
    write_arrays(path, {**arrays, **run.further}, {SIMILARITY: run.similarity, MODEL: run.model})


def _check_suffix(path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise MalformedRun(f"{path}: unknown embeddings format {suffix!r}; use {' or '.join(FORMATS)}")


def read_side(
    path: Path | str, arrays: Mapping[str, NDArray[Any]], ids_name: str, vectors_name: str
) -> Embeddings | None:
    """The checked ids and float32 vectors of one side, or None if the file has neither."""
    present = [name for name in (ids_name, vectors_name) if name in arrays]
    if not present:
        return None
    if len(present) == 1:
        missing = vectors_name if present == [ids_name] else ids_name
        raise MalformedRun(f"{path}: has {present[0]!r} but not {missing!r}; save both, row by row in the same order")
    ids = check_ids(path, ids_name, arrays[ids_name])
    return Embeddings(ids, check_vectors(path, vectors_name, arrays[vectors_name], ids))


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """All arrays of a ``.npz`` or ``.safetensors`` file by name, and the metadata of the latter."""
    return (read_npz(path), {}) if path.suffix.lower() == ".npz" else read_safetensors(path)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str | None]) -> None:
    """Write arrays and texts, but those that are None, to a ``.npz`` or ``.safetensors`` file in one step."""
    entries = {name: text for name, text in texts.items() if text is not None}
    with replaced_file(path) as part:
        if path.suffix.lower() == ".npz":
            write_npz(part, {**arrays, **{name: np.array(text) for name, text in entries.items()}})
        else:
            write_safetensors(part, arrays, entries)


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a ``.npz`` file by name, compared with its checksums."""
    with refuse_damaged_run(path):
        _verify_checksums(path)
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy"): _read_member(path, archive, name) for name in archive.namelist()}


def _verify_checksums(path: Path) -> None:
    """Raise BadZipFile for whatever zipfile raises, which has many errors for damaged places and options."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (OSError, RuntimeError, ValueError) as error:
        raise zipfile.BadZipFile(str(error)) from None
    if damaged is not None:
        raise zipfile.BadZipFile(f"{damaged} does not match its checksum")


def _read_member(path: Path, archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    name = member.removesuffix(".npy")
    try:
        with archive.open(member) as stream:
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise MalformedRun(f"{path}, {name}: no array ({error}); save it again with np.savez") from None
        advice = "Save a plain number array, for example np.stack(vectors).astype('float32')"
        if name.endswith("_ids"):
            advice = advise_ids(name)
        raise MalformedRun(
            f"{path}, {name}: holds Python objects (object dtype), which are never unpickled. {advice}"
        ) from None
    return array


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays uncompressed; equal arrays give equal bytes."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)


def read_safetensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """All tensors of a ``.safetensors`` file by name, with bfloat16 as float32, and its metadata."""
    with refuse_damaged_run(path):
        with safetensors.safe_open(path, framework="np") as file:
            metadata: dict[str, str] = file.metadata() or {}
        tensors = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call] # reads bfloat16 too
    return {name: _array(path, name, entry) for name, entry in tensors}, metadata


def write_safetensors(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write arrays; equal arrays give equal bytes, as the order of the metadata is fixed."""
    entries = {name: {"dtype": DTYPE_NAMES[array.dtype], "shape": list(array.shape)} for name, array in arrays.items()}
    data = {name: np.ascontiguousarray(array).data.cast("B") if array.size else b"" for name, array in arrays.items()}
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, entry in entries.items():
        header[name] = {**entry, "data_offsets": [offset, offset + len(data[name])]}
        offset += len(data[name])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in data.values():
            file.write(part)


def _array(path: Path, name: str, entry: Mapping[str, Any]) -> NDArray[Any]:
    kind = entry["dtype"]
    if kind not in TYPES:
        raise MalformedRun(
            f"{path}, {name}: has type {kind}; save vectors as float32, float16, bfloat16 or float64, and ids as int64"
        )
    array = np.frombuffer(entry["data"], dtype=TYPES[kind]).reshape(entry["shape"])
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array
