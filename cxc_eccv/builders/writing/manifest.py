"""``manifest.json`` of a built folder: its files, its sources, and its format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import cxc_eccv
from cxc_eccv.builders.config import BuildOptions
from cxc_eccv.builders.summary import Provenance
from cxc_eccv.errors import InvalidOption
from cxc_eccv.runs.checks import hash_file
from cxc_eccv.sources.catalog import fingerprint_files
from cxc_eccv.sources.library import Library
from cxc_eccv.writing import finish_interrupted

MANIFEST_NAME = "manifest.json"
FORMAT = "cxc_eccv dataset folder 1"


def write_manifest(folder: Path, content: Mapping[str, Any], hashes: Mapping[str, str]) -> None:
    """Write ``manifest.json`` with ``content`` and the size and sha256 of every other file of ``folder``."""
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": hashes.get(name) or hash_file(folder / name)}
        for name in sorted(_files(folder))
        if name != MANIFEST_NAME
    }
    text = json.dumps({"format": FORMAT, **content, "files": files}, indent=2, ensure_ascii=False)
    (folder / MANIFEST_NAME).write_text(text + "\n", encoding="utf-8")


def replaceable_files(target: Path, *, overwrite: bool = False) -> set[str]:
    """The files that a new build of ``target`` replaces: those of the earlier build."""
    if target.exists() and not target.is_dir():
        raise InvalidOption(f"{target} is a file. Name a folder to build.")
    finish_interrupted(target)
    built = _built_files(target)
    # The message needs only a few, and a home folder has very many.
    foreign = sorted(islice((name for name in _files(target) if name not in built), 100))
    if foreign and not overwrite:
        shown = ", ".join(foreign[:3]) + (" and others" if len(foreign) > 3 else "")
        raise InvalidOption(
            f"{target} has files that no build wrote: {shown}. Choose another output folder, or empty this one. In "
            "Python, overwrite=True removes every file in it."
        )
    return set(_files(target))  # the manifest may name files in other places


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
    """The raw sources, read according to ``options``."""
    allow, fold = options.allow_modified, options.restval_in_train
    return Library(
        data_dir,
        allow_modified=allow,
        restval_in_train=fold,
        progress=progress,
        mined=options.mined,
        labels=options.labels,
    )


def provenance_of(library: Library, files: Mapping[str, str]) -> Provenance:
    """Edition, versions and hashes; ``files`` are the sha256 of the raw files that were read, by catalog name."""
    return Provenance(
        edition=library.edition,
        data_version=library.catalog.version,
        package_version=cxc_eccv.__version__,
        fingerprint=fingerprint_files(files),
        sources=dict(sorted(files.items())),
        modified=library.catalog.modified(files),
        labels={key: {"name": file.name, **file.summary} for key, file in library.label_files.items() if key in files},
    )
