"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.errors import UnknownName

__all__ = ["AllowModified", "DataDir", "SkipBadImages", "Thumbnails", "names", "split_name"]

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
SkipBadImages = Annotated[
    bool, typer.Option("--skip-bad-images", help="Leave out missing and broken images, and name them.")
]
Thumbnails = Annotated[
    Path | None, typer.Option(help="Folder with the image files, at any depth, for thumbnails in the HTML page.")
]
SPLITS = {"train": "train", "restval": "restval", "val": "validation", "validation": "validation", "test": "test"}


def names(values: list[str] | None) -> list[str] | None:
    """Repeated and comma-separated values as one list; None stays None."""
    if not values:
        return None
    return [name for value in values for name in value.split(",") if name]


def split_name(split: str) -> str:
    """The dataset's name of a split; ``val`` is ``validation``."""
    if split not in SPLITS:
        raise UnknownName("split", split, SPLITS)
    return SPLITS[split]
