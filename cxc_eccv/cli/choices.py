"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from cxc_eccv.errors import UnknownName

__all__ = ["AllowModified", "DataDir", "names", "split_name"]

DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        help="Folder with the raw files; 'sample' for the embedded sample. Default: CXC_ECCV_DATA, else the cache.",
    ),
]
AllowModified = Annotated[
    bool, typer.Option("--allow-modified", help="Use raw files whose hash is not the catalog's; reports say so.")
]
SPLITS = {"train": "train", "restval": "restval", "val": "validation", "validation": "validation", "test": "test"}


def names(values: list[str] | None) -> list[str] | None:
    """Repeated and comma-separated values as one list; None stays None.

    Example:
        >>> names(["sts,sis", "sits"])
        ['sts', 'sis', 'sits']
    """
    if not values:
        return None
    return [name for value in values for name in value.split(",") if name]


def split_name(split: str) -> str:
    """The dataset's name of a split; ``val`` is ``validation``.

    Raises:
        UnknownName: no such split.

    Example:
        >>> split_name("val")
        'validation'
    """
    if split not in SPLITS:
        raise UnknownName("split", split, SPLITS)
    return SPLITS[split]
