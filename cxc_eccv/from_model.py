"""From a model to a report in one call: its encoding of a split is made once and kept, and scored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cxc_eccv.builders.images import ImageFolder
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import check_request, evaluate
from cxc_eccv.evaluation.restriction import first_images
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Report, check_whole

if TYPE_CHECKING:
    from cxc_eccv.encoding import LoadedModel
    from cxc_eccv.runs import EmbeddingsRun

__all__ = ["encode_split", "evaluate_model", "split_items"]


def evaluate_model(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    *,
    images: str | Path | None = None,
    split: str = "test",
    data_dir: str | Path | Library | None = None,
    limit: int | None = None,
    skip_bad_images: bool = False,
    embeddings: str | Path | None = None,
    batch_size: int = 64,
    pooling: str = "mean",
    central_crop: float | None = None,
    **options: Any,  # noqa: ANN401 - those of evaluate
) -> Report:
    """Encode a split's images and captions with a model, and score it.

    The encoding is kept, in the folder ``encodings`` of the download cache: a call that is killed goes on where it was,
    and one with the same model, files and options scores at once. A model counts as the same by its weights,
    architecture and processors, whatever its name, and an image by name, size and time of its file.

    Args:
        model: Hub id or folder, a loaded ``PreTrainedModel`` or ``SentenceTransformer``, or, for a revision, prompts,
            a type of weights or a device, what :func:`cxc_eccv.encoding.load_model` gave.
        images: folder with the image files, at any depth; a model of texts alone needs none.
        split: ``validation`` or ``test``.
        data_dir: as of :func:`cxc_eccv.evaluate`.
        limit: encode and score the first images alone, so many in the order of their ids, and their captions: a first
            try, whose report says so.
        skip_bad_images: leave out images that are missing or broken, with a warning; the report counts them.
        embeddings: ``.npz`` or ``.safetensors`` file to keep the encoding in, in place of the cache.
        batch_size: items at once.
        pooling: of a text model: ``mean`` or ``cls``.
        central_crop: share of an image's area that the model sees.
        **options: of :func:`cxc_eccv.evaluate`: ``tasks``, ``metrics``, ``per_query`` and so on.

    Raises:
        InvalidOption: no ``images`` for a model that looks at them; a model that scores pairs, whose lists are made by
            :func:`cxc_eccv.encoding.rerank`; ``embeddings`` is there and holds something else.
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
    from cxc_eccv.encoding import load_model

    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    scoring = {"split": split, "data_dir": library, "limit": limit, **options}
    encoding: dict[str, Any] = {"batch_size": batch_size, "pooling": pooling, "central_crop": central_crop}
    encoding |= {"skip_bad_images": skip_bad_images, "progress": options.get("progress", True)}
    run, _ = encode_split(load_model(model), images, scoring, file=embeddings, **encoding)
    return evaluate(run, **scoring)


def encode_split(
    loaded: LoadedModel,
    images: str | Path | None,
    scoring: dict[str, Any],
    *,
    file: str | Path | None = None,
    **options: Any,  # noqa: ANN401 - those of encode_once
) -> tuple[EmbeddingsRun, bool]:
    """What a model makes of a split, or of its first images, and whether that was there already.

    Whatever ``evaluate`` would refuse of ``scoring``, which is to be handed to it, is refused before the work.
    """
    from cxc_eccv.encoding import encode_once

    if loaded.is_cross_encoder:
        raise InvalidOption(
            f"{loaded.name} scores pairs, and the test split has 125 million of them. Rank the top of a dual encoder "
            "anew with it (cxc-eccv encode --rerank EMBEDDINGS --output lists.parquet), and evaluate these lists."
        )
    if "images" in loaded.sides and images is None:
        raise InvalidOption(f"{loaded.name} looks at images: give their folder with images (--images)")
    check_request(loaded.sides, **scoring)
    items = split_items(loaded.sides, scoring["data_dir"], scoring["split"], images, scoring["limit"])
    run, was_there = encode_once(loaded, file, **items, **options)
    return replace(run, model=loaded.title), was_there  # an encoding that is there may have had another name


def split_items(
    sides: tuple[str, ...], library: Library, split: str, images: str | Path | None, limit: int | None = None
) -> dict[str, Any]:
    """What ``encode`` takes of these sides of a split: (id, file) of the images in a folder, the table of captions."""
    if limit is not None:
        check_whole("limit", limit)
    first = None if limit is None else first_images(np.asarray(library.images(split)["image_id"]), limit)

    def shorten(table: pa.Table) -> pa.Table:
        return table if first is None else table.filter(np.isin(table["image_id"], first))

    found: dict[str, Any] = {}
    if "images" in sides and images is not None:
        own, files = shorten(library.images(split)), ImageFolder(images)
        pairs = zip(own["image_id"].to_pylist(), own["file_name"].to_pylist(), strict=True)
        # A file that is not there keeps its name, for the message.
        found["images"] = [(number, files.find(name) or files.folder / name) for number, name in pairs]
    if "captions" in sides:
        found["captions"] = shorten(library.captions(split))
    return found
