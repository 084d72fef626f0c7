"""What a built dataset folder must be like to be uploaded: whole, unedited, nothing besides."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cxc_eccv.builders.manifest import FORMAT, MANIFEST_NAME
from cxc_eccv.errors import InvalidOption
from cxc_eccv.hub.local_file import LocalFile

__all__ = ["checked_manifest"]

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
