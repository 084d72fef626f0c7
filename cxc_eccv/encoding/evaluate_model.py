"""Encodes a split with a model, and scores the model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import pyarrow as pa

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.errors import raise_all
from cxc_eccv.evaluation import Fields, Request, evaluate_request, make_plan
from cxc_eccv.evaluation.calls import find_library
from cxc_eccv.report import Report
from cxc_eccv.runs.run import AnyRun
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.types import IntArray, find_sides
from cxc_eccv.types.ids import check_type
from cxc_eccv.types.model_options import DEFAULT_ENCODING, Encoding

if TYPE_CHECKING:
    from cxc_eccv.encoding import LoadedModel


def evaluate_model(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    tasks: str | Sequence[str] = "all",
    *,
    images: str | Path | None = None,
    embeddings: str | Path | None = None,
    encoding: Encoding = DEFAULT_ENCODING,
    data_dir: str | Path | Library | None = None,
    progress: bool = True,
    **fields: Unpack[Fields],
) -> Report:
    """Encode the images and captions of a split with a model, and score it.

    The encoding is kept in the folder ``encodings`` of the download cache: the call resumes after a kill, and a call
    with the same model, files and options reuses it. A model is identified by its weights, architecture and processors,
    an image by the name, size and time of its file.

    Args:
        model: Hub id or folder, a loaded ``PreTrainedModel`` or ``SentenceTransformer``, or, to choose revision,
            prompts, type of weights or device, a model from :func:`cxc_eccv.encoding.load_model`.
        tasks: as in :func:`cxc_eccv.evaluate`.
        images: folder with the image files, at any depth; not needed for a text model.
        embeddings: ``.npz`` or ``.safetensors`` file for the encoding, instead of the cache.
        encoding: batch size, pooling, crops, and whether to skip bad images, which the report counts.
        data_dir: as in :func:`cxc_eccv.evaluate`.
        progress: show progress bars when standard error is a terminal.
        **fields: keyword arguments of :func:`cxc_eccv.evaluate`. With ``limit``, only so many images are encoded.

    Raises:
        InvalidOption: a model that encodes images has no ``images``; the model scores pairs, for which there is
            :func:`cxc_eccv.encoding.rerank`; or ``embeddings`` exists and holds something else.
        ModelError: the model cannot be loaded.
        DataError: an image or a raw file is missing or broken.

    Example:
        >>> from transformers import BertConfig, BertModel, BertTokenizer
        >>> letters = "abcdefghijklmnopqrstuvwxyz"
        >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
        >>> words = {piece: number for number, piece in enumerate(pieces)}
        >>> sizes = dict(hidden_size=8, intermediate_size=8, num_attention_heads=2, num_hidden_layers=1)
        >>> from cxc_eccv.encoding import load_model
        >>> model = BertModel(BertConfig(vocab_size=len(words), **sizes))
        >>> loaded = load_model(model, processor=BertTokenizer(vocab=words), name="tiny")
        >>> options = dict(data_dir="sample", tasks="co_captions", limit=20, progress=False)
        >>> report = evaluate_model(loaded, **options)
        >>> report.name, report.results[0].n_queries
        ('tiny, on 20 of 60 images', 100)
    """
    from cxc_eccv.encoding import encode_once, load_model

    request = Request(tasks=tasks, **fields)
    library = find_library(data_dir)
    check_type("encoding", encoding, Encoding, "an Encoding, such as Encoding(batch_size=32)")
    loaded = load_model(model)
    items = find_items(loaded, images, request, library, skip_bad=encoding.skip_bad_images)
    run, _ = encode_once(
        loaded, embeddings, images=items.images, captions=items.captions, encoding=encoding, progress=progress
    )
    return evaluate_request(run, request, library, progress=progress)


@dataclass(frozen=True, slots=True, eq=False)
class ModelSides(AnyRun):
    """The images, the captions, or both of a split, which a model is still to encode."""

    sides: tuple[str, ...]
    library: Library
    split: str
    path: None = None

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``, possibly none."""
        ids = self.library.split(self.split).ids(side)
        return ids if side in self.sides else ids[:0]

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None."""
        lacking = next((side for side in find_sides(direction) if side not in self.sides), None)
        return None if lacking is None else f"the run has no {lacking}"


def check_before_encoding(request: Request, library: Library, sides: tuple[str, ...]) -> None:
    """Raise, before a model encodes these sides, the errors of its request and of raw files."""
    raise_all(make_plan(request, library, ModelSides(sides, library, request.split)).refused)


class Items(NamedTuple):
    """What a model encodes: (id, file) pairs of images, and a table of captions."""

    images: list[tuple[int, Path]] | None = None
    captions: pa.Table | None = None


def find_items(
    loaded: LoadedModel, images: str | Path | None, request: Request, library: Library, *, skip_bad: bool = False
) -> Items:
    """The items of a split that a model encodes for a request, after all that can be checked before the work."""
    loaded.require_vectors(images)
    check_before_encoding(request, library, loaded.sides)
    return read_items(library.split(request.split).first(request.limit), loaded.sides, images, skip_bad=skip_bad)


def read_items(
    split: Split, sides: Collection[str], images: str | Path | None, *, skip_bad: bool | None = None
) -> Items:
    """The images and captions of a split that a model of these sides encodes; see :func:`find_photographs`."""
    pairs = None
    if "images" in sides and images is not None:
        pairs = find_photographs(split, images, skip_bad=skip_bad)
    return Items(pairs, split.captions if "captions" in sides else None)


def find_photographs(split: Split, folder: str | Path, *, skip_bad: bool | None = None) -> list[tuple[int, Path]]:
    """(id, file) pairs of the images of a split; raises SourceMissing if one is missing.

    If missing images are skipped (``skip_bad``; None where there is no such option), all may be missing but one.
    """
    files = ImageFolder(folder)
    names = split.images["file_name"].to_pylist()
    if skip_bad and any(files.find(name) for name in names):
        places = [files.find(name) or files.folder / name for name in names]
    else:
        advice = ", or leave them out with --skip-bad-images" if skip_bad is False else ""
        places = list(files.find_all(names, split.name, advice).values())
    return list(zip(split.image_ids.tolist(), places, strict=True))
