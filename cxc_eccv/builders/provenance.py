"""What something was built from: the edition of the data, the raw files' hashes, the package version."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import cxc_eccv
from cxc_eccv.builders.config import BuildOptions
from cxc_eccv.sources.library import Library

__all__ = ["Provenance", "open_library", "provenance_of"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """What something was built from.

    Attributes:
        edition: edition of the data: ``official``, ``sample``, or the name of a mirror folder's own catalog.
        data_version: version of that edition's catalog.
        package_version: version of this package.
        fingerprint: hex sha256 over ``sources``, as :meth:`Library.fingerprint` gives it.
        sources: catalog name to sha256 of every raw file read.
        modified: those of them that are not the catalog's, to ``expected`` and ``found`` sha256.
    """

    edition: str
    data_version: str
    package_version: str
    fingerprint: str
    sources: Mapping[str, str]
    modified: Mapping[str, Mapping[str, str]]


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
    lines = "".join(f"{name} {digest}\n" for name, digest in sources.items())
    fingerprint = hashlib.sha256(lines.encode()).hexdigest()
    modified = library.catalog.modified(sources)
    return Provenance(library.edition, library.catalog.version, cxc_eccv.__version__, fingerprint, sources, modified)
