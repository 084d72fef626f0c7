"""The files of a folder that is to be uploaded, none of them from outside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cxc_eccv.errors import InvalidOption
from cxc_eccv.hub.local_file import LocalFile, local_file

__all__ = ["LEFT_OUT", "folder_files"]

LEFT_OUT = ("__pycache__", ".git", ".cache", ".DS_Store", ".gitattributes")
"""Names that are never part of an upload, at any depth; the Hub keeps its own .gitattributes."""


def folder_files(folder: Path, token: str | None = None) -> tuple[list[LocalFile], list[str]]:
    """Every file below a folder, and the paths that are left out (caches, version control).

    Args:
        folder: may itself be reached through a link.
        token: refused in any file.

    Raises:
        InvalidOption: no such folder, a symbolic link or a special file in it, a file that holds the token.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "app.py").write_text("print()")
        >>> [(file.path, file.size) for file in folder_files(folder)[0]]
        [('app.py', 7)]
        >>> (folder / "passwd").symlink_to("/etc/passwd")
        >>> folder_files(folder)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        cxc_eccv.errors.InvalidOption: ...passwd is a symbolic link...
    """
    if not folder.is_dir():
        raise InvalidOption(f"{folder} is not a folder")
    root = folder.resolve()
    left_out: list[Path] = []
    files = [local_file(path, path.relative_to(root).as_posix(), token) for path in _walk(root, left_out)]
    return files, [path.relative_to(root).as_posix() for path in left_out]


def _walk(folder: Path, left_out: list[Path]) -> Iterator[Path]:
    """Files and links; a link to a folder is reported, not followed."""
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if entry.name in LEFT_OUT:
            left_out.append(Path(entry.path))
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), left_out)
        else:
            yield Path(entry.path)
