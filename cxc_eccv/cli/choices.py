"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from cxc_eccv.errors import UnknownName
from cxc_eccv.splits import SPLIT_NAMES

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
    bool, typer.Option("--allow-modified", help="Use raw files whose hash is not the catalog's; reports say so.")
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
        help="Labels of people, a source of labels under their own name: a file of annotate merge, a folder of such, "
        "or a dataset on the Hub (user/name). Repeat for several."
    ),
]
SkipBadImages = Annotated[
    bool, typer.Option("--skip-bad-images", help="Leave out missing and broken images, and name them.")
]
Processor = Annotated[str | None, typer.Option(help="Id or folder of tokenizer and image processor.")]
Revision = Annotated[str | None, typer.Option(help="Commit, tag or branch of a Hugging Face id. Default: the newest.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run the Python code that the model brings along.")
]
CaptionPrompt = Annotated[
    str | None,
    typer.Option(help="Text around every caption, {} in its place; or a sentence-transformers prompt's name."),
]
ImagePrompt = Annotated[
    str | None, typer.Option(help="Text beside every image, for sentence-transformers models that read one.")
]
Pooling = Annotated[str, typer.Option(help="Of a text model: mean over the tokens, or cls.")]
BatchSize = Annotated[int, typer.Option(help="Items at once.")]
Device = Annotated[str | None, typer.Option(help="Torch device. Default: a GPU where there is one.")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16 or float16. Default: float32.")]
Lowercase = Annotated[
    bool | None, typer.Option(help="Put captions in lower case first. Default: for SigLIP 2, trained on such.")
]
CentralCrop = Annotated[
    float | None, typer.Option(help="Share of an image's area to keep; 0.875 as the CxC paper's for image-only models.")
]
Thumbnails = Annotated[
    Path | None, typer.Option(help="Folder with the image files, at any depth, for thumbnails in the HTML page.")
]
ENCODING_OPTIONS: dict[str, tuple[Any, object]] = {
    "processor": (Processor, None),
    "revision": (Revision, None),
    "trust_remote_code": (TrustRemoteCode, False),
    "caption_prompt": (CaptionPrompt, None),
    "image_prompt": (ImagePrompt, None),
    "pooling": (Pooling, "mean"),
    "batch_size": (BatchSize, 64),
    "device": (Device, None),
    "dtype": (Dtype, None),
    "lowercase": (Lowercase, None),
    "central_crop": (CentralCrop, None),
    "skip_bad_images": (SkipBadImages, False),
}
"""How a model is loaded and encodes: each option's type and default."""

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., None])


def add_encoding_options(after: str, without: Collection[str] = ()) -> Callable[[AnyCommand], AnyCommand]:
    """Let a command take these options behind one of its own; ``context.params`` has their values."""

    def add(command: AnyCommand) -> AnyCommand:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        added = [
            inspect.Parameter(name, kind, default=default, annotation=annotation)
            for name, (annotation, default) in ENCODING_OPTIONS.items()
            if name not in without
        ]
        signature = inspect.signature(command, eval_str=True)
        *parameters, _ = signature.parameters.values()  # the last one takes what is added
        place = [parameter.name for parameter in parameters].index(after) + 1
        parameters[place:place] = added
        vars(command)["__signature__"] = signature.replace(parameters=parameters)  # typer reads it
        return command

    return add


CONCEPT_SOURCES = {"coco": "coco", "visual-genome": "visual_genome"}


def concept_source(source: str) -> str:
    """Python's name of a source of concepts."""
    if source not in CONCEPT_SOURCES:
        raise UnknownName("source of concepts", source, CONCEPT_SOURCES)
    return CONCEPT_SOURCES[source]


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
