"""The raw files of one data location: found, downloaded, verified and hashed, and their contents kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from cxc_eccv.errors import SourceMissing
from cxc_eccv.sources.catalog import Catalog, fingerprint_files
from cxc_eccv.sources.download import catalog_of, fetch, locate, mirror_folder, offline_reason, sha256_of
from cxc_eccv.types.provenance import ModifiedFile

Content = TypeVar("Content")


class RawFiles:
    """Raw files by their name in the catalog; each is read when it is needed, once.

    Args:
        data_dir: local mirror folder, or ``"sample"`` for the embedded sample; None for ``CXC_ECCV_DATA``, else the
            download cache.
        offline: never download; None follows ``CXC_ECCV_OFFLINE`` and ``HF_HUB_OFFLINE``.
        allow_modified: use mirror files whose hash differs from the catalog's; :meth:`modified_files` lists them.
        progress: show download bars.

    Raises:
        InvalidOption: ``data_dir`` is not a folder.
    """

    def __init__(
        self, data_dir: str | Path | None, *, offline: bool | None, allow_modified: bool, progress: bool
    ) -> None:
        if data_dir is not None:
            mirror_folder(data_dir)  # refuses a folder that does not exist
        self.data_dir = data_dir
        self._offline, self._allow_modified, self._progress = offline, allow_modified, progress
        self._contents: dict[object, object] = {}
        self._files: dict[str, str] = {}

    @property
    def catalog(self) -> Catalog:
        """The catalog of the mirror folder, if it has one, else the official catalog."""
        return catalog_of(self.data_dir)

    @property
    def edition(self) -> str:
        """``official``, ``sample``, or the name in the catalog of the mirror folder."""
        return self.catalog.edition

    @property
    def offline_reason(self) -> str:
        """Why downloads are off; empty if they are on."""
        return offline_reason(self._offline)

    def read(self, name: str, reader: Callable[[Path], Content]) -> Content:
        """Read a raw file of the catalog, downloaded and verified, once; for sources without their own method.

        Args:
            name: name in the catalog.
            reader: function from the path to the content.

        Raises:
            UnknownName: the catalog has no such file.
            DataError: the file is missing, modified or malformed.

        Example:
            >>> from cxc_eccv.sources.library import Library
            >>> from cxc_eccv.sources.readers import read_positives
            >>> Library("sample").read("eccv_image_to_caption", read_positives).column_names
            ['query_id', 'item_id']
        """
        return self.once((name, reader), lambda: reader(self.path(name)))

    def read_optional(self, name: str, reader: Callable[[Path], Content]) -> Content | None:
        """The content of a file that is never downloaded; None if it is missing."""
        return self.read(name, reader) if self.has([name]) else None

    def path(self, name: str) -> Path:
        """The path of a raw file, downloaded and verified; its hash is recorded."""
        path = fetch(
            name,
            self.data_dir,
            offline=self._offline,
            allow_modified=self._allow_modified,
            progress=self._progress,
        )
        return self.record(name, path)

    def record(self, name: str, path: Path) -> Path:
        """Record the hash of a file, which may be a user's, under a name; returns its path."""
        if not path.is_file():
            raise SourceMissing(f"{path} is not a file. Name the file with the annotations.")
        self._files[name] = sha256_of(path)
        return path

    def locate(self, name: str) -> Path | None:
        """The path of a raw file on this machine, or None."""
        return locate(name, self.data_dir, allow_modified=self._allow_modified)

    def has(self, names: Iterable[str]) -> bool:
        """Whether all these raw files are in the catalog and on this machine."""
        return all(name in self.catalog and self.locate(name) is not None for name in names)

    def files_used(self) -> dict[str, str]:
        """Catalog name to sha256 of every raw file read so far."""
        return dict(sorted(self._files.items()))

    def modified_files(self) -> dict[str, ModifiedFile]:
        """The raw files read so far that differ from the catalog, which only ``allow_modified`` permits."""
        return self.catalog.modified(self._files)

    def fingerprint(self) -> str:
        """Hex sha256 over names and hashes of the raw files read so far."""
        return fingerprint_files(self._files)

    def once(self, key: object, read: Callable[[], Content]) -> Content:
        """Call ``read`` once for each key and keep the result, which must depend only on raw files.

        Example:
            >>> from cxc_eccv.sources.library import Library
            >>> library = Library("sample")
            >>> library.once("answer", lambda: 42), library.once("answer", lambda: 43)
            (42, 42)
        """
        if key not in self._contents:
            self._contents[key] = read()
        return self._contents[key]  # type: ignore[return-value] # the key determines the type
