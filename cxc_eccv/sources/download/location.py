"""Where raw files lie on this machine: the mirror folder, the download cache, and whether downloads are allowed."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from platformdirs import user_cache_dir

from cxc_eccv.errors import InvalidOption

__all__ = ["SAMPLE", "cache_folder", "mirror_folder", "offline_reason", "tables_folder"]

SAMPLE = "sample"
"""The word that stands for the folder of the embedded sample; a folder of that name is written ``./sample``."""

OFFLINE_VARIABLES = ("CXC_ECCV_OFFLINE", "HF_HUB_OFFLINE")


def mirror_folder(data_dir: str | Path | None = None) -> Path | None:
    """The local mirror folder in force.

    Args:
        data_dir: the folder, or the word ``sample``; None for the environment variable ``CXC_ECCV_DATA``.

    Returns:
        The folder, or None where neither is given.

    Raises:
        InvalidOption: there is no such folder.

    Example:
        >>> mirror_folder("sample").name
        'sample'
        >>> mirror_folder("no/such/folder")
        Traceback (most recent call last):
        ...
        cxc_eccv.errors.InvalidOption: data_dir (--data-dir): 'no/such/folder' is not a folder
    """
    origin = "data_dir (--data-dir)"
    if data_dir is None:
        data_dir = os.environ.get("CXC_ECCV_DATA", "")
        origin = "CXC_ECCV_DATA"
        if not data_dir:
            return None
    if data_dir == SAMPLE:
        return Path(str(resources.files("cxc_eccv"))) / SAMPLE
    folder = Path(data_dir).expanduser()
    if not folder.is_dir():
        raise InvalidOption(f"{origin}: {str(data_dir)!r} is not a folder")
    return folder


def cache_folder() -> Path:
    """The download cache: ``CXC_ECCV_CACHE``, else the user's cache folder of the operating system.

    Example:
        >>> cache_folder().is_absolute()
        True
    """
    chosen = os.environ.get("CXC_ECCV_CACHE", "")
    if chosen:
        return Path(chosen).expanduser().resolve()
    return Path(user_cache_dir("cxc_eccv"))


def tables_folder() -> Path | None:
    """Where the tables of parsed raw files are kept, in the download cache; None where ``CXC_ECCV_NO_TABLE_CACHE``."""
    return None if _is_on("CXC_ECCV_NO_TABLE_CACHE") else cache_folder() / "tables"


def offline_reason(offline: bool | None = None) -> str:
    """Why downloads are off; empty where they are allowed.

    Args:
        offline: True or False decides; None follows ``CXC_ECCV_OFFLINE`` and ``HF_HUB_OFFLINE`` (1, true, yes, on).

    Example:
        >>> offline_reason(True), offline_reason(False)
        ('offline=True', '')
    """
    if offline is not None:
        return "offline=True" if offline else ""
    for name in OFFLINE_VARIABLES:
        if _is_on(name):
            return f"{name}={os.environ[name]}"
    return ""


def _is_on(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() in {"1", "true", "yes", "on"}
