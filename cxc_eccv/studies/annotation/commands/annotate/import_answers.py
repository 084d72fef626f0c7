"""``cxc-eccv annotate import``: what people answered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir
from cxc_eccv.studies.annotation.commands.annotate.telling import Folder, Form, say_status
from cxc_eccv.terminal import say


def import_answers(
    folder: Folder,
    files: Annotated[list[Path], typer.Argument(help="Answered files, all of one round.")],
    form: Form = "html",
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Take in what people answered: all files or, where anything in one is not in order, none.

    Files say which round they answer. Answers that are there already are no error, so that a person's file may come
    again when more of it is done; a different answer of the same person is refused, with both places.

    Examples:
      cxc-eccv annotate import doubts ann.jsonl ben.jsonl
      cxc-eccv annotate import doubts project-3.json --format label_studio
    """
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.annotation.project import Project

    before = Project.open(folder, Library(data_dir, allow_modified=allow_modified))
    after = before.add_answers(files, form)
    added = after.answers().num_rows - before.answers().num_rows
    say(f"{added:,} answers are new" if added else "nothing is new: these answers are there already")
    say_status(after, data_dir)
