"""What a repository shall hold after a push: the files of a folder with their hashes, and the generated card.

A file that is a link, changes meanwhile, or holds the token is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from huggingface_hub.constants import SPACES_SDK_TYPES

from cxc_eccv.builders.writing import FORMAT, MANIFEST_NAME
from cxc_eccv.errors import InvalidOption
from cxc_eccv.hub import front_matter, leaderboard

__all__ = [
    "CARD",
    "DATASET_KEYS",
    "LocalFile",
    "UploadContent",
    "check_manifest",
    "hash_text",
    "read_dataset",
    "read_folder",
    "read_space",
]

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
        """Raise unless the file is the one that was looked at.

        Raises:
            InvalidOption: it has changed, or is gone.
        """
        if isinstance(self.source, Path):
            now = _check_plain(self.source, self.path)
            if (now.st_size, now.st_mtime_ns) != (self.size, self.modified):
                raise InvalidOption(f"{self.source} changed while it was being uploaded. Run the command again.")


def _hash_file(path: Path, name: str, token: str | None) -> LocalFile:
    status = _check_plain(path, name)
    with path.open("rb") as stream:
        return _hash(name, path, stream, status.st_size, token, status.st_mtime_ns)


def hash_text(path: str, text: str) -> LocalFile:
    """Make a file that exists only as text.

    Example:
        >>> hash_text("a.txt", "").git_oid
        'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    content = text.encode()
    return _hash(path, content, BytesIO(content), len(content))


def _check_plain(path: Path, name: str) -> os.stat_result:
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


def _hash(
    name: str, source: Path | bytes, stream: BinaryIO, size: int, token: str | None = None, modified: int = 0
) -> LocalFile:
    secret, tail = (token or "").encode(), b""
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for block in iter(lambda: stream.read(BLOCK), b""):
        if secret and secret in tail + block:
            raise InvalidOption(f"{name} holds your access token. Remove it there, and revoke the token.")
        tail = (tail + block)[-len(secret) :] if secret else b""
        sha256.update(block)
        git.update(block)
    return LocalFile(name, source, size, sha256.hexdigest(), git.hexdigest(), modified)


LEFT_OUT = ("__pycache__", ".git", ".cache", ".DS_Store", ".gitattributes")
"""Names that are never part of an upload, at any depth; the Hub keeps its own .gitattributes."""


def read_folder(folder: Path, token: str | None = None) -> tuple[list[LocalFile], list[str]]:
    """Hash every file below a folder; give them, and the paths that are left out (caches, version control).

    Args:
        folder: may itself be reached through a link.
        token: refused in any file.

    Raises:
        InvalidOption: no such folder, a symbolic link or a special file in it, a file that holds the token.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "app.py").write_text("print()")
        >>> [(file.path, file.size) for file in read_folder(folder)[0]]
        [('app.py', 7)]
        >>> (folder / "passwd").symlink_to("/etc/passwd")
        >>> read_folder(folder)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        cxc_eccv.errors.InvalidOption: ...passwd is a symbolic link...
    """
    if not folder.is_dir():
        raise InvalidOption(f"{folder} is not a folder")
    root = folder.resolve()
    left_out: list[Path] = []
    files = [_hash_file(path, path.relative_to(root).as_posix(), token) for path in _walk(root, left_out)]
    return files, [path.relative_to(root).as_posix() for path in left_out]


def _walk(folder: Path, left_out: list[Path]) -> Iterator[Path]:
    """Files and links; a link to a folder is reported, not followed."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name in LEFT_OUT:
            left_out.append(Path(entry.path))
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), left_out)
        else:
            yield Path(entry.path)


REBUILD = "Build the folder again with `cxc-eccv build`."


def check_manifest(folder: Path, files: Sequence[LocalFile]) -> Mapping[str, Any]:
    """Read the manifest of a folder that ``cxc-eccv build`` wrote, and compare every file with it.

    Args:
        folder: what is to be uploaded.
        files: everything in it.

    Raises:
        InvalidOption: no manifest; a file is missing, edited, or not of the build.

    Example:
        >>> check_manifest(Path("pictures"), [])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: pictures holds no manifest.json, so it is no dataset that `cxc-eccv build` ...
    """
    found = {file.path: file for file in files}
    manifest = _read_manifest(folder, found)
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


def _read_manifest(folder: Path, found: Mapping[str, LocalFile]) -> dict[str, Any]:
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
            and all("sha256" in file for file in manifest["files"].values())
        ):
            return dict(manifest)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise InvalidOption(f"{folder / MANIFEST_NAME} does not have the form {FORMAT!r}. {REBUILD}")


def _some(paths: Sequence[str]) -> str:
    return ", ".join(sorted(paths)[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


CARD = "README.md"

DATASET_KEYS = ("configs", "dataset_info", "size_categories", "modified_data")
SPACE_KEYS = ("sdk", "sdk_version", "python_version", "app_file")


@dataclass(frozen=True, slots=True)
class UploadContent:
    """What a repository shall hold after a push.

    Attributes:
        files: everything but the card.
        card: the generated card.
        owned: keys of the card's front matter that describe the files.
        configs: dataset configs; other Parquet files in their folders would be loaded with them, and are removed.
        space_sdk: of a Space, else None.
        left_out: paths in the folder that are not uploaded.
    """

    files: tuple[LocalFile, ...]
    card: str
    owned: tuple[str, ...]
    configs: tuple[str, ...] = ()
    space_sdk: str | None = None
    left_out: tuple[str, ...] = ()

    def makes_stale(self, path: str, formerly_built: Collection[str]) -> bool:
        """Whether a file on the Hub must go: a shard of ours, or a file that an earlier build wrote, not in this one.

        Example:
            >>> content = UploadContent((), "", (), configs=("sts",))
            >>> [content.makes_stale(path, ["old/a"]) for path in ("sts/test-00001-of-00002.parquet", "old/a", "notes")]
            [True, True, False]
        """
        if path in (CARD, *(file.path for file in self.files)):
            return False
        of_config = any(re.fullmatch(rf"{re.escape(config)}/[^/]+\.parquet", path) for config in self.configs)
        return of_config or path in formerly_built


def read_dataset(folder: Path, token: str | None = None, framework: str = leaderboard.FRAMEWORK) -> UploadContent:
    """Read a folder that ``cxc-eccv build`` wrote, with an ``eval.yaml`` for the configs it holds.

    Raises:
        InvalidOption: not such a folder, or changed since; a link in it, or the token.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.builders.writing.folder import build_folder
        >>> folder = Path(tempfile.mkdtemp()) / "data"
        >>> _ = build_folder(folder, configs=["sts"], splits=["test"], data_dir="sample", progress=False)
        >>> [file.path for file in read_dataset(folder).files]
        ['manifest.json', 'sts/test-00000-of-00001.parquet', 'eval.yaml']
    """
    files, left_out = read_folder(folder, token)
    manifest = check_manifest(folder, files)
    configs = tuple(manifest["configs"])
    declared = hash_text(leaderboard.PATH, leaderboard.eval_yaml(configs, framework))
    others = (*(file for file in files if file.path != CARD), declared)
    card = (folder / CARD).read_text(encoding="utf-8")
    return UploadContent(others, card, DATASET_KEYS, configs, left_out=tuple(left_out))


def read_space(folder: Path, token: str | None = None) -> UploadContent:
    r"""Read the folder of a Space, as those in ``metrics/``.

    Raises:
        InvalidOption: it has no card, or one that does not say which SDK runs it; a link in it, or the token.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "README.md").write_text("---\nsdk: gradio\n---\n")
        >>> _ = (folder / "app.py").write_text("")
        >>> content = read_space(folder)
        >>> content.space_sdk, [file.path for file in content.files]
        ('gradio', ['app.py'])
    """
    files, left_out = read_folder(folder, token)
    if CARD not in [file.path for file in files]:
        raise InvalidOption(f"{folder} has no {CARD}. A Space needs one, whose front matter says `sdk: gradio`.")
    card = (folder / CARD).read_text(encoding="utf-8")
    sdk = front_matter.parse(front_matter.split(card)[0], str(folder / CARD)).get("sdk")
    if sdk not in SPACES_SDK_TYPES:
        raise InvalidOption(f"{folder / CARD}: sdk is {sdk!r}, expected one of {', '.join(SPACES_SDK_TYPES)}")
    others = tuple(file for file in files if file.path != CARD)
    return UploadContent(others, card, SPACE_KEYS, space_sdk=sdk, left_out=tuple(left_out))
