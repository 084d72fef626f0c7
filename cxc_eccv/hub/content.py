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
from typing import Any

from huggingface_hub.constants import SPACES_SDK_TYPES

from cxc_eccv.builders.writing import FORMAT, MANIFEST_NAME
from cxc_eccv.errors import InvalidOption
from cxc_eccv.hub import leaderboard
from cxc_eccv.hub.card import CARD, read_matter, split_card

__all__ = ["DATASET_KEYS", "LocalFile", "UploadContent", "hash_file", "read_content", "read_folder"]

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
        """Raise unless the file is the one that was looked at."""
        if isinstance(self.source, Path):
            now = _check_plain(self.source, self.path)
            if (now.st_size, now.st_mtime_ns) != (self.size, self.modified):
                raise InvalidOption(f"{self.source} changed while it was being uploaded. Run the command again.")


def hash_file(name: str, source: Path | bytes, token: str | None = None) -> LocalFile:
    """Hash a file, or content that is in no file, as the Hub and git do; refuse one that holds the token.

    Example:
        >>> hash_file("a.txt", b"").git_oid
        'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    size, modified = len(source) if isinstance(source, bytes) else 0, 0
    if isinstance(source, Path):
        status = _check_plain(source, name)
        size, modified = status.st_size, status.st_mtime_ns
    secret, tail = (token or "").encode(), b""
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            if secret and secret in tail + block:
                raise InvalidOption(f"{name} holds your access token. Remove it there, and revoke the token.")
            tail = (tail + block)[-len(secret) :] if secret else b""
            sha256.update(block)
            git.update(block)
    return LocalFile(name, source, size, sha256.hexdigest(), git.hexdigest(), modified)


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


LEFT_OUT = ("__pycache__", ".git", ".cache", ".DS_Store", ".gitattributes")
"""Names that are never part of an upload, at any depth; the Hub keeps its own .gitattributes."""


def read_folder(folder: Path, token: str | None = None) -> tuple[list[LocalFile], list[str]]:
    """Hash every file below a folder, links and special files refused; give them, and the paths that are left out.

    The folder may itself be reached through a link.
    """
    if not folder.is_dir():
        raise InvalidOption(f"{folder} is not a folder")
    root = folder.resolve()
    left_out: list[Path] = []
    files = [hash_file(path.relative_to(root).as_posix(), path, token) for path in _walk(root, left_out)]
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


def _check_manifest(folder: Path, found: Mapping[str, LocalFile]) -> dict[str, Any]:
    """Read the manifest that ``cxc-eccv build`` wrote; refuse a file that is missing, edited, or not of the build."""
    manifest = _read_manifest(folder, found)
    listed: dict[str, Any] = manifest["files"]
    foreign = [path for path in found if path not in listed and path != MANIFEST_NAME]
    if foreign:
        raise InvalidOption(f"{folder} holds {_name_some(foreign)}, which the build did not write. Move it elsewhere.")
    missing = [path for path in listed if path not in found]
    if missing:
        raise InvalidOption(f"{folder} lacks {_name_some(missing)}, which its {MANIFEST_NAME} lists. {REBUILD}")
    edited = [path for path in listed if found[path].sha256 != listed[path]["sha256"]]
    if CARD in edited:
        raise InvalidOption(
            f"{folder / CARD} was edited after the build, and the next build will replace it. Write your "
            f"sections in the card on the Hub, outside the generated part, where every push keeps them. {REBUILD}"
        )
    if edited:
        raise InvalidOption(f"{_name_some(edited)} in {folder} changed after the build. {REBUILD}")
    return manifest


def _read_manifest(folder: Path, found: Collection[str]) -> dict[str, Any]:
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


def _name_some(paths: Sequence[str]) -> str:
    return ", ".join(sorted(paths)[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


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
        """Whether a file on the Hub must go: a shard of ours, or of an earlier build, that is not in this one."""
        if path in (CARD, *(file.path for file in self.files)):
            return False
        of_config = any(re.fullmatch(rf"{re.escape(config)}/[^/]+\.parquet", path) for config in self.configs)
        return of_config or path in formerly_built


def read_content(
    folder: Path, repo_type: str, token: str | None = None, framework: str = leaderboard.FRAMEWORK
) -> UploadContent:
    """Read a folder of ``cxc-eccv build``, with an ``eval.yaml`` for the configs it holds, or the folder of a Space."""
    files, left_out = read_folder(folder, token)
    found = {file.path: file for file in files}
    owned, configs, space_sdk = SPACE_KEYS, (), None
    if repo_type == "space":
        space_sdk = _read_sdk(folder, found)
    else:
        owned, configs = DATASET_KEYS, tuple(_check_manifest(folder, found)["configs"])
        declared = leaderboard.eval_yaml(configs, framework)
        found[leaderboard.PATH] = hash_file(leaderboard.PATH, declared.encode())
    card = (folder / CARD).read_text(encoding="utf-8")
    others = tuple(file for path, file in found.items() if path != CARD)
    return UploadContent(others, card, owned, configs, space_sdk, tuple(left_out))


def _read_sdk(folder: Path, found: Collection[str]) -> str:
    """What runs a Space, as its card says."""
    if CARD not in found:
        raise InvalidOption(f"{folder} has no {CARD}. A Space needs one, whose front matter says `sdk: gradio`.")
    card = (folder / CARD).read_text(encoding="utf-8")
    sdk = read_matter(split_card(card)[0], str(folder / CARD)).get("sdk")
    if sdk not in SPACES_SDK_TYPES:
        raise InvalidOption(f"{folder / CARD}: sdk is {sdk!r}, expected one of {', '.join(SPACES_SDK_TYPES)}")
    return str(sdk)
