"""Files to upload, with their hashes; refused if one is a link, changes meanwhile, or holds the token."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from cxc_eccv.builders.writing import FORMAT, MANIFEST_NAME
from cxc_eccv.errors import InvalidOption

__all__ = ["LEFT_OUT", "LocalFile", "checked_manifest", "folder_files", "local_file", "local_text"]

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file to upload.

    Attributes:
        path: place in the repository, with slashes.
        source: the file, or its content.
        size: bytes.
        sha256: of the content.
        git_oid: git's sha1 of the content.
        modified: time of its last change in nanoseconds; 0 where there is no file.
    """

    path: str
    source: Path | bytes
    size: int
    sha256: str
    git_oid: str
    modified: int = 0

    def require_unchanged(self) -> None:
        """Make sure that the file is the one that was looked at.

        Raises:
            InvalidOption: it has changed, or is gone.
        """
        if isinstance(self.source, Path):
            now = _status(self.source, self.path)
            if (now.st_size, now.st_mtime_ns) != (self.size, self.modified):
                raise InvalidOption(f"{self.source} changed while it was being uploaded. Run the command again.")


def local_file(path: Path, name: str, token: str | None = None) -> LocalFile:
    """A plain file of this machine.

    Args:
        path: the file.
        name: its place in the repository.
        token: refused in it.

    Raises:
        InvalidOption: a symbolic link or a special file, a name the Hub cannot keep, or one that holds the token.

    Example:
        >>> local_file(Path(__file__), "a.py").size == Path(__file__).stat().st_size
        True
    """
    status = _status(path, name)
    with path.open("rb") as stream:
        return _digested(name, path, stream, status, token)


def local_text(path: str, text: str, token: str | None = None) -> LocalFile:
    """A file that exists only as text.

    Raises:
        InvalidOption: it holds the token.

    Example:
        >>> local_text("a.txt", "").git_oid
        'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    content = text.encode()
    return _digested(path, content, BytesIO(content), None, token)


def _status(path: Path, name: str) -> os.stat_result:
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise InvalidOption(f"{path} is gone. Run the command again.") from None
    if stat.S_ISLNK(status.st_mode):
        raise InvalidOption(
            f"{path} is a symbolic link to {path.readlink()}; an upload holds nothing from outside its folder. "
            "Put the file itself there, or remove the link."
        )
    if not stat.S_ISREG(status.st_mode):
        raise InvalidOption(f"{path} is no plain file. Remove it from the folder.")
    if any(ord(letter) < 32 or letter == "\\" for letter in name):
        raise InvalidOption(f"{path!r} holds a backslash or a control character in its name. Rename it.")
    return status


def _digested(
    name: str, source: Path | bytes, stream: BinaryIO, status: os.stat_result | None, token: str | None
) -> LocalFile:
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for block in _refusing(token, name, iter(lambda: stream.read(BLOCK), b"")):
        sha256.update(block)
        git.update(block)
    modified = status.st_mtime_ns if status else 0
    return LocalFile(name, source, size, sha256.hexdigest(), git.hexdigest(), modified)


def _refusing(token: str | None, name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    secret, tail = (token or "").encode(), b""
    for block in blocks:
        if secret and secret in tail + block:
            raise InvalidOption(f"{name} holds your access token. Remove it there, and revoke the token.")
        tail = (tail + block)[-len(secret) :] if secret else b""
        yield block


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


REBUILD = "Build the folder again with `cxc-eccv build`."


def checked_manifest(folder: Path, files: Sequence[LocalFile]) -> Mapping[str, Any]:
    """The manifest of a folder that ``cxc-eccv build`` wrote, after comparing every file with it.

    Args:
        folder: what is to be uploaded.
        files: everything in it.

    Raises:
        InvalidOption: no manifest; a file is missing, edited, or not of the build.

    Example:
        >>> checked_manifest(Path("pictures"), [])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: pictures holds no manifest.json, so it is no dataset that `cxc-eccv build` ...
    """
    found = {file.path: file for file in files}
    manifest = _manifest(folder, found)
    listed: dict[str, Any] = manifest["files"]
    foreign = [path for path in found if path not in listed and path != MANIFEST_NAME]
    if foreign:
        raise InvalidOption(f"{folder} holds {_some(foreign)}, which the build did not write. Move it elsewhere.")
    missing = [path for path in listed if path not in found]
    if missing:
        raise InvalidOption(f"{folder} lacks {_some(missing)}, which its {MANIFEST_NAME} lists. {REBUILD}")
    edited = [path for path in listed if found[path].sha256 != listed[path]["sha256"]]
    if "README.md" in edited:
        raise InvalidOption(
            f"{folder / 'README.md'} was edited after the build, and the next build will replace it. Write your "
            f"sections in the card on the Hub, outside the generated part, where every push keeps them. {REBUILD}"
        )
    if edited:
        raise InvalidOption(f"{_some(edited)} in {folder} changed after the build. {REBUILD}")
    return manifest


def _manifest(folder: Path, found: Mapping[str, LocalFile]) -> dict[str, Any]:
    if MANIFEST_NAME not in found:
        raise InvalidOption(
            f"{folder} holds no {MANIFEST_NAME}, so it is no dataset that `cxc-eccv build` wrote. "
            "Name such a folder, or pass --type space for the folder of a metric."
        )
    try:
        manifest = json.loads((folder / MANIFEST_NAME).read_text(encoding="utf-8"))
        if (
            manifest["format"] == FORMAT
            and manifest["configs"]
            and all("sha256" in f for f in manifest["files"].values())
        ):
            return dict(manifest)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise InvalidOption(f"{folder / MANIFEST_NAME} does not have the form {FORMAT!r}. {REBUILD}")


def _some(paths: Sequence[str]) -> str:
    return ", ".join(sorted(paths)[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
