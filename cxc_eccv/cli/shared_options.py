"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.errors import UnknownName

OF_LABELS, OF_STATISTICS, OF_ENCODING = "Labels", "Statistics", "Encoding"
"""Panels of the help; other options come first, without one."""

Labels = Annotated[
    list[str] | None,
    typer.Option(
        help="Labels that people gave, a source under their own name: a table of image_id, caption_id and, if not "
        "all match, positive or gain; a file of annotate merge; a folder of these, or a dataset on the Hub "
        "(user/name). Repeat for several.",
        rich_help_panel=OF_LABELS,
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        help="Sources of labels that define the positives of every task, comma-separated or repeated: coco, cxc, "
        "eccv, entailment and names of --labels. Default: the tables of --labels, else each task's own.",
        rich_help_panel=OF_LABELS,
    ),
]
TrainingData = Annotated[
    list[str] | None,
    typer.Option(
        help="What the model was trained on, comma-separated or repeated: coco_train, coco_val, flickr30k, web, "
        "unknown, or other names. Default: what its file or model card says."
    ),
]
Tasks = Annotated[list[str] | None, typer.Option(help="Tasks, comma-separated or repeated. Default: all.")]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name", help="Name of a model, in the order of the files; repeat for each. Default: the one in its file."
    ),
]
ReportNames = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        help="Name of a model, in the order of the reports; repeat for each. Default: its report's, or its folder's "
        "where two are alike.",
    ),
]
Similarity = Annotated[
    str | None,
    typer.Option(help="Similarity of embeddings: cosine or dot. Default: the one the file states, else cosine."),
]
Confidence = Annotated[float, typer.Option(help="Confidence of the intervals.", rich_help_panel=OF_STATISTICS)]
Seed = Annotated[int, typer.Option(help="Seed of the bootstrap.", rich_help_panel=OF_STATISTICS)]
SkipBadImages = Annotated[
    bool,
    typer.Option(
        "--skip-bad-images", help="Leave out missing and broken images, and name them.", rich_help_panel=OF_ENCODING
    ),
]
BatchSize = Annotated[int, typer.Option(help="Items per batch.", rich_help_panel=OF_ENCODING)]
Device = Annotated[
    str | None, typer.Option(help="Torch device. Default: a GPU if there is one.", rich_help_panel=OF_ENCODING)
]
Dtype = Annotated[
    str | None, typer.Option(help="float32, bfloat16 or float16. Default: float32.", rich_help_panel=OF_ENCODING)
]
Thumbnails = Annotated[
    Path | None, typer.Option(help="Folder with the images, at any depth, for thumbnails in the HTML page.")
]


def names(values: Sequence[str] | None) -> list[str] | None:
    """Repeated and comma-separated values as one list; None stays None."""
    if not values:
        return None
    return [name for value in values for name in value.split(",") if name]


def split_name(split: str) -> str:
    """The dataset's name of a split; ``val`` is ``validation``."""
    from cxc_eccv.sources.catalog import SPLIT_NAMES

    if split not in SPLIT_NAMES:
        raise UnknownName("split", split, SPLIT_NAMES)
    return SPLIT_NAMES[split]
