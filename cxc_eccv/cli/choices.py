"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.errors import UnknownName
from cxc_eccv.splits import SPLIT_NAMES

__all__ = [
    "AllowModified",
    "BatchSize",
    "CaptionPrompt",
    "CentralCrop",
    "DataDir",
    "Dtype",
    "ImagePrompt",
    "Labels",
    "Lowercase",
    "Pooling",
    "Processor",
    "Revision",
    "SkipBadImages",
    "Thumbnails",
    "TrustRemoteCode",
    "concept_source",
    "names",
    "split_name",
]

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
