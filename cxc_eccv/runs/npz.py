"""NumPy archives: read without unpickling, checked for damage, written without a time stamp."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun

__all__ = ["read_npz", "write_npz"]


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a ``.npz`` file by name.

    Raises:
        MalformedRun: not an archive, cut short, damaged, or holding pickled objects.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_npz(Path(folder) / "a.npz", {"ids": np.array([3, 4])})
        ...     read_npz(Path(folder) / "a.npz")
        {'ids': array([3, 4])}
    """
    with path.open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
        except (zipfile.BadZipFile, ValueError, EOFError, OSError, NotImplementedError) as error:
            raise MalformedRun(
                f"{path}: not a readable .npz archive, perhaps cut short ({error}); save it again"
            ) from None
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise MalformedRun(f"{path}: a single .npy array; save named arrays with np.savez")
        return {name: _member(path, archive, name) for name in archive.files}


def _member(path: Path, archive: np.lib.npyio.NpzFile, name: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise MalformedRun(f"{path}, {name}: damaged array ({error}); save the file again") from None
        raise MalformedRun(
            f"{path}, {name}: holds Python objects (object dtype), which are never unpickled. "
            "Save a plain number array, for example np.stack(vectors).astype('float32')."
        ) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise MalformedRun(f"{path}, {name}: cut short or damaged ({error}); save the file again") from None
    if not isinstance(array, np.ndarray):
        raise MalformedRun(f"{path}, {name}: not a NumPy array")
    return array


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays uncompressed; equal arrays give equal bytes."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
