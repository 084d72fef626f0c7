"""``cxc-eccv report``: the pages of a report anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.terminal import say

__all__ = ["report"]


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that evaluate --output wrote.")],
    images: Annotated[
        Path | None, typer.Option(help="Folder with the image files, at any depth, for thumbnails in the HTML page.")
    ] = None,
) -> None:
    """Rebuild report.md and report.html from report.json, per_query.parquet and examples.parquet.

    The HTML page is one self-contained file: it loads nothing from elsewhere. Without --images it shows images by
    their file names and captions.

    Examples:
      cxc-eccv report out
      cxc-eccv report out --images val2014
    """
    from cxc_eccv.report.folder import rebuild_pages

    for path in rebuild_pages(folder, images):
        say(f"wrote {path}")
