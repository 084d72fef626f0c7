"""``cxc-eccv report``: the pages of a report anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import Thumbnails
from cxc_eccv.cli.output import say_written


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that evaluate --output wrote.")],
    images: Thumbnails = None,
) -> None:
    """Rebuild report.md and report.html from report.json, per_query.parquet and examples.parquet.

    The HTML page is one self-contained file: it loads nothing from elsewhere. Without --images it shows images by
    their file names and captions.

    Examples:
      cxc-eccv report out
      cxc-eccv report out --images val2014
    """
    from cxc_eccv.report.folder import rebuild_pages

    say_written(rebuild_pages(folder, images))
