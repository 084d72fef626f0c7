"""Options that several commands share."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cxc_eccv.errors import UnknownName
from cxc_eccv.sources.catalog import SPLIT_NAMES

if TYPE_CHECKING:
    from cxc_eccv.sources.library import Library

DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        help="Folder with the raw files; 'sample' for the embedded sample. Default: CXC_ECCV_DATA, else the cache.",
    ),
]
AllowModified = Annotated[
    bool, typer.Option("--allow-modified", help="Use raw files whose hash differs from the catalog's. Reports say so.")
]


class DataOptions(NamedTuple):
    """Which raw files a command reads: the options of the program, which stand before or after a command's name."""

    data_dir: str | None = None
    allow_modified: bool = False

    def to_arguments(self) -> list[str]:
        """The same options on a command line."""
        arguments = [] if self.data_dir is None else ["--data-dir", self.data_dir]
        return [*arguments, *(["--allow-modified"] if self.allow_modified else [])]


DATA: ContextVar[DataOptions] = ContextVar("DATA", default=DataOptions())  # noqa: B039 - a tuple is immutable


def open_library(**options: Any) -> Library:  # noqa: ANN401 - as of Library
    """The library of the raw files that the command line names."""
    from cxc_eccv.sources.library import Library

    return Library(**DATA.get()._asdict(), **options)


Labels = Annotated[
    list[str] | None,
    typer.Option(
        help="Labels that people gave, a source under their own name: a file of annotate merge, a folder with such "
        "files, or a dataset on the Hub (user/name). Repeat for several."
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        help="Sources of labels that define the positives of every task, comma-separated or repeated: coco, cxc, "
        "eccv, entailment and names of --labels. Default: each task's own."
    ),
]
TrainingData = Annotated[
    list[str] | None,
    typer.Option(
        help="What the model was trained on, comma-separated or repeated: coco_train, coco_val, flickr30k, web, "
        "unknown, or other names. Default: what its file or model card says."
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(help="Leave out models trained on any of these, comma-separated or repeated, such as coco_val."),
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
Confidence = Annotated[float, typer.Option(help="Confidence of the intervals.")]
Seed = Annotated[int, typer.Option(help="Seed of the bootstrap.")]
SkipBadImages = Annotated[
    bool, typer.Option("--skip-bad-images", help="Leave out missing and broken images, and name them.")
]
BatchSize = Annotated[int, typer.Option(help="Items per batch.")]
Device = Annotated[str | None, typer.Option(help="Torch device. Default: a GPU if there is one.")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16 or float16. Default: float32.")]
Thumbnails = Annotated[
    Path | None, typer.Option(help="Folder with the images, at any depth, for thumbnails in the HTML page.")
]


def names(values: list[str] | None) -> list[str] | None:
    """Repeated and comma-separated values as one list; None stays None."""
    if not values:
        return None
    return [name for value in values for name in value.split(",") if name]


def split_name(split: str) -> str:
    """The dataset's name of a split; ``val`` is ``validation``."""
    if split not in SPLIT_NAMES:
        raise UnknownName("split", split, SPLIT_NAMES)
    return SPLIT_NAMES[split]
