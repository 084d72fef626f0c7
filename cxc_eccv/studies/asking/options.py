"""Options shared by the commands that export questions and read answers."""

from __future__ import annotations

from typing import Annotated

import typer

QuestionForm = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="html, jsonl, csv, label_studio or mturk.")
]

AnswerForm = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="html, jsonl, csv, label_studio or mturk. Default: from the ending of each file.",
    ),
]

AnswerWorkers = Annotated[
    list[str] | None,
    typer.Option(
        "--worker",
        help="Name of the person of each file, comma-separated in the order of the files, where accounts are only "
        "numbers, as in Label Studio's exports. Default: the names in the files.",
    ),
]

QuestionImages = Annotated[
    str,
    typer.Option(
        help="Folder with the images, which are embedded ('sample' for the sample's); an address such as "
        "images/{file_name} or https://example.org/{folder}/{file_name}; or coco for COCO's own server."
    ),
]
