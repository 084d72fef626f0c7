"""Options that several commands share: which raw files a command reads, how values are read, and panels of the help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from cxc_eccv.errors import UnknownName

if TYPE_CHECKING:
    from cxc_eccv.sources.library import Library


class Group(StrEnum):
    """Groups of commands in the main help, in its order."""

    SCORE = "Score"
    DATA = "Data"
    PUBLISH = "Publish"
    EXTEND_LABELS = "Extend labels"
    RESEARCH = "Research"


OF_DATA = "Raw files"
"""Panel of the help."""

DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Folder with the raw files; 'sample' for the embedded sample. Default: CXC_ECCV_DATA, else the cache.",
        rich_help_panel=OF_DATA,
    ),
]
AllowModified = Annotated[
    bool,
    typer.Option(
        "--allow-modified",
        help="Use raw files whose hash differs from the catalog's. Reports say so.",
        rich_help_panel=OF_DATA,
    ),
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


def open_library(labels: Sequence[str] = ()) -> Library:
    """The library of the raw files that the command line names, with these labels of people."""
    from cxc_eccv.sources.library import Library

    options = DATA.get()
    return Library(options.data_dir, allow_modified=options.allow_modified, labels=labels)


VALUE_NAMES: Mapping[object, str] = {str: "TEXT", int: "INT", float: "FLOAT", Path: "PATH"}
"""Type of an option to the name of its value in the help."""


class Command(TyperCommand):
    """A command whose help names the values of its options for readers, and not the types of Python."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - a class of typer that is not public
        """Its parameters, with names of their values."""
        parameters = super().get_params(ctx)
        for parameter in parameters:
            _name_value(parameter)
        return parameters


def _name_value(parameter: Any) -> None:  # noqa: ANN401 - as of typer
    """Name the value of an option unless it is declared; arguments and options without a value need no name."""
    descriptor = getattr(parameter, "type_descriptor", None)
    if descriptor is None:  # an earlier typer, whose names are good
        return
    is_option = parameter.param_type_name == "option"
    if is_option and parameter.metavar is not None:
        return
    kinds = get_args(descriptor.annotation) or (descriptor.annotation,)
    name = VALUE_NAMES.get(kinds[0]) if is_option else None
    parameter.display_type_rich = lambda ctx: name


class CommandGroup(TyperGroup):
    """Commands of one subject, whose help is as that of its commands."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - a class of typer that is not public
        """Its parameters, with names of their values."""
        parameters = super().get_params(ctx)
        for parameter in parameters:
            _name_value(parameter)
        return parameters


class DataCommand(Command):
    """A command that reads raw files: it takes the program's options that say which, too."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - a class of typer that is not public
        """Its own options, and those of the program."""
        of_program = [option for option in ctx.find_root().command.params if option.name in DataOptions._fields]
        for option in of_program:
            _name_value(option)
        return [*super().get_params(ctx), *of_program]

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as of typer
        """Run with the options behind the command's name, else those before it."""
        before = DATA.get()
        data_dir = ctx.params.pop("data_dir")
        if data_dir is None:
            data_dir = before.data_dir or None
        allow_modified = ctx.params.pop("allow_modified") or before.allow_modified
        DATA.set(DataOptions(data_dir, allow_modified))
        return super().invoke(ctx)


class ScriptCommand(Command):
    """A command whose options are those of a training script, which lists them itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a class of typer that is not public
        """Print what the command does before what the script says of its options."""
        if "--help" in args or "-h" in args:
            self.get_help(ctx)
        return super().parse_args(ctx, [*DATA.get().to_arguments(), *args])


OF_LABELS = "Labels"
OF_STATISTICS = "Statistics"
OF_ENCODING = "Encoding"
OF_MODEL = "About the model"
OF_RERUN = "Run again"
OF_ADVANCED = "Advanced"
"""Panels of the help; other options come first, without one."""

Labels = Annotated[
    list[str] | None,
    typer.Option(
        help="Labels of yours: a table of image_id, caption_id and, if not all match, positive or gain; a file that "
        "`cxc-eccv annotate merge` wrote; a folder of these, or a dataset on the Hub (user/name). Repeat for several.",
        rich_help_panel=OF_LABELS,
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        help="Sources of labels that define the positives, comma-separated or repeated: coco, cxc, eccv, entailment "
        "and names of --labels. Default: the tables of --labels, else each task's own.",
        rich_help_panel=OF_LABELS,
    ),
]
TrainingData = Annotated[
    list[str] | None,
    typer.Option(
        help="What the model was trained on, comma-separated or repeated: coco_train, coco_val, flickr30k, web, "
        "unknown, or other names. Default: what its file or model card says.",
        rich_help_panel=OF_MODEL,
    ),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(help="Tasks, comma-separated or repeated. Default: all on the images and captions that the file has."),
]
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
    typer.Option(
        metavar="cosine|dot",
        help="Similarity of embeddings. Default: the one the file states, else cosine.",
        rich_help_panel=OF_MODEL,
    ),
]
Confidence = Annotated[float, typer.Option(help="Confidence of the intervals.", rich_help_panel=OF_STATISTICS)]
Seed = Annotated[int, typer.Option(help="Seed of the bootstrap.", rich_help_panel=OF_STATISTICS)]
SkipBadImages = Annotated[
    bool,
    typer.Option(
        "--skip-bad-images", help="Leave out missing and broken images, and name them.", rich_help_panel=OF_ENCODING
    ),
]
QueryPrompt = Annotated[
    str | None,
    typer.Option(
        help="Prompt of the queries, for a model that encodes them otherwise: a text with {} for the item, or a saved "
        "prompt. Default: the prompt that a sentence-transformers model saved as query.",
        rich_help_panel=OF_ENCODING,
    ),
]
GalleryPrompt = Annotated[
    str | None,
    typer.Option(
        help="Prompt of the items that are searched. Default: the saved prompt document.", rich_help_panel=OF_ENCODING
    ),
]
BatchSize = Annotated[int, typer.Option(help="Items per batch.", rich_help_panel=OF_ENCODING)]
Device = Annotated[
    str | None, typer.Option(help="Torch device. Default: a GPU if there is one.", rich_help_panel=OF_ENCODING)
]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="float32|bfloat16|float16", help="Type of the weights. Default: float32.", rich_help_panel=OF_ENCODING
    ),
]
Thumbnails = Annotated[
    Path | None, typer.Option(help="Folder with the images, at any depth, for thumbnails in the HTML page.")
]


def names(values: Sequence[str] | None) -> list[str] | None:
    """Repeated and comma-separated values as one list; None stays None."""
    if not values:
        return None
    listed = ",".join(values).split(",")
    return [name for name in listed if name]


def split_name(split: str) -> str:
    """The dataset's name of a split; ``val`` is ``validation``."""
    from cxc_eccv.sources.catalog import SPLIT_NAMES

    if split not in SPLIT_NAMES:
        raise UnknownName("split", split, SPLIT_NAMES)
    return SPLIT_NAMES[split]
