"""``cxc-eccv annotate export``: the questions of a round, for a browser or an annotation tool."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir
from cxc_eccv.cli.output import say_written
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.studies.annotation.commands.annotate.telling import Folder, Form, count_nouns, say_next
from cxc_eccv.terminal import say


def export(
    folder: Folder,
    output: Annotated[Path, typer.Option(help="Folder to write to; other files in it stay.")],
    form: Form = "html",
    images: Annotated[
        str,
        typer.Option(
            help="Folder of the image files, which are embedded ('sample': the sample's); an address such as "
            "images/{file_name} or https://example.org/{folder}/{file_name}; or coco, where COCO has them."
        ),
    ] = "coco",
    number: Annotated[int | None, typer.Option("--round", help="Which round. Default: the last.")] = None,
    sheets: Annotated[
        str | None, typer.Option(help="Numbers of sheets, for one person: 0-4 or 0,7. Default: all of the round.")
    ] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Write the questions of a round as a page, or for an annotation tool. Nothing in them tells the known pairs.

    html is one page for any browser, by keyboard alone: people save their answers to a file, which import reads.

    Examples:
      cxc-eccv annotate export doubts --images val2014 --output questions
      cxc-eccv annotate export doubts --sheets 0-9 --output for_ann
      cxc-eccv annotate export doubts --format label_studio --output studio
    """
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.annotation.project import Project
    from cxc_eccv.studies.asking.exchange import find_images, formats

    if form not in formats():
        raise UnknownName("format", form, formats())
    library = Library(data_dir, allow_modified=allow_modified)
    project = Project.open(folder, library)
    own = project.round(number)
    only = None if sheets is None else _read_numbers("--sheets", sheets, len(own.sheets))
    asked = own.sheets if only is None else [own.sheets[place] for place in only]
    addresses = find_images(images, asked, library, project.split)
    say_written(formats()[form].export(own.sheets, project.scheme, addresses, output, only))
    say(f"round {own.number}, {count_nouns(len(asked), 'sheet')}: {formats()[form].exported}")
    say_next(data_dir, "import", folder, "ANSWERS", *([] if form == "html" else ["--format", form]))


def _read_numbers(option: str, text: str, size: int) -> list[int]:
    """Numbers below a size: ``0-4,7``."""
    parts = [re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part) for part in text.split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part is not None]
    found = [number for part in ranges if len(part) <= size for number in part]
    if None in parts or not all(ranges) or not all(part.stop <= size for part in ranges):
        raise InvalidOption(f"{option} {text}: give numbers from 0 to {size - 1}, as 0-4 or 0,7")
    return sorted(set(found))
