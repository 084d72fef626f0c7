"""``manifest.json`` of a built folder: what it holds, what it was made from, and how to recognise it as ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import file_digest
from itertools import islice
from pathlib import Path
from typing import Any

import cxc_eccv
from cxc_eccv.builders.config import BuildOptions
from cxc_eccv.builders.summary import Provenance
from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.catalog import fingerprint_files
from cxc_eccv.sources.library import Library

__all__ = [
    "MANIFEST_NAME",
    "open_library",
    "provenance_of",
    "require_replaceable",
    "sha256_of_file",
    "write_manifest",
]

MANIFEST_NAME = "manifest.json"
FORMAT = "cxc_eccv dataset folder 1"


def sha256_of_file(path: Path) -> str:
    """Hex sha256 of a file's bytes.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "empty"
        >>> path.touch()
        >>> sha256_of_file(path)[:8]
        'e3b0c442'
    """
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def write_manifest(folder: Path, content: Mapping[str, Any], hashes: Mapping[str, str]) -> Path:
    """Write ``manifest.json`` with ``content`` and the size and sha256 of every other file of ``folder``.

    It holds neither times nor local paths, so building twice gives the same bytes.

    Args:
        folder: where to write.
        content: what else it shall say.
        hashes: sha256 of the files, as paths below ``folder``, that are known already.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "README.md").write_text("")
        >>> manifest = json.loads(write_manifest(folder, {"edition": "sample"}, {}).read_text())
        >>> manifest["edition"], manifest["files"]["README.md"]["bytes"]
        ('sample', 0)
    """
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": hashes.get(name) or sha256_of_file(folder / name)}
        for name in sorted(_files(folder))
        if name != MANIFEST_NAME
    }
    path = folder / MANIFEST_NAME
    text = json.dumps({"format": FORMAT, **content, "files": files}, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def require_replaceable(target: Path) -> None:
    """Refuse to replace anything but an empty folder or an earlier build without foreign files.

    Raises:
        InvalidOption: ``target`` is a file, holds no manifest of ours, or holds files the manifest does not name.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp())
        >>> require_replaceable(target)
        >>> _ = (target / "thesis.tex").write_text("...")
        >>> require_replaceable(target)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        cxc_eccv.errors.InvalidOption: ... is not a folder this command built: it holds thesis.tex...
    """
    if target.exists() and not target.is_dir():
        raise InvalidOption(f"{target} is a file. Name a folder to build.")
    built = _built_files(target)
    # A few suffice for the message, and a home folder holds very many.
    foreign = sorted(islice((name for name in _files(target) if name not in built), 100))
    if foreign:
        shown = ", ".join(foreign[:3]) + (" and others" if len(foreign) > 3 else "")
        raise InvalidOption(
            f"{target} is not a folder this command built: it holds {shown}. "
            "Choose another output folder, or pass overwrite=True (--overwrite); everything in it is then removed."
        )


def _files(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _built_files(target: Path) -> set[str]:
    try:
        manifest = json.loads((target / MANIFEST_NAME).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            return set()
        return {MANIFEST_NAME, *manifest["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def open_library(data_dir: str | Path | None, options: BuildOptions, *, progress: bool = True) -> Library:
    """The raw sources, read the way ``options`` say.

    Args:
        data_dir: local mirror folder, ``"sample"``, or None for ``CXC_ECCV_DATA``, else the download cache.
        options: the user's choices.
        progress: show download bars.

    Example:
        >>> open_library("sample", BuildOptions(restval_in_train=True)).splits
        ('train', 'validation', 'test')
    """
    return Library(
        data_dir,
        allow_modified=options.allow_modified,
        restval_in_train=options.restval_in_train,
        progress=progress,
    )


def provenance_of(library: Library, files: Mapping[str, str]) -> Provenance:
    """Edition, versions and hashes.

    Args:
        library: where the data comes from.
        files: catalog name to sha256 of the raw files read, by ``library`` or by others like it.

    Example:
        >>> library = Library("sample")
        >>> _ = library.splits
        >>> provenance = provenance_of(library, library.files_used())
        >>> provenance.edition, provenance.fingerprint == library.fingerprint()
        ('sample', True)
    """
    sources = dict(sorted(files.items()))
    fingerprint = fingerprint_files(sources)
    modified = library.catalog.modified(sources)
    return Provenance(library.edition, library.catalog.version, cxc_eccv.__version__, fingerprint, sources, modified)
