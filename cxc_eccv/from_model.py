"""Encodes a split with a model, and scores the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cxc_eccv.builders.images import ImageFolder
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import check_request, evaluate
from cxc_eccv.evaluation.select import first_images
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import COCO, Collection
from cxc_eccv.types import Report, check_whole

if TYPE_CHECKING:
    from cxc_eccv.encoding import LoadedModel


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
    """Encode the images and captions of a split with a model, and score it.

    The encoding is kept in the folder ``encodings`` of the download cache: the call resumes after a kill, and a call
    with the same model, files and options reuses it. A model is identified by its weights, architecture and processors,
    an image by the name, size and time of its file.

    Args:
        model: Hub id or folder, a loaded ``PreTrainedModel`` or ``SentenceTransformer``, or, to choose revision,
            prompts, type of weights or device, a model from :func:`cxc_eccv.encoding.load_model`.
        images: folder with the image files, at any depth; not needed for a text model.
        split: ``validation`` or ``test``.
        data_dir: as in :func:`cxc_eccv.evaluate`.
        limit: encode and score only this many images, the first by id, with their captions; the report says so.
        skip_bad_images: skip images that are missing or broken, with a warning; the report counts them.
        embeddings: ``.npz`` or ``.safetensors`` file for the encoding, instead of the cache.
        batch_size: items per batch.
        pooling: ``mean`` or ``cls``, for a text model.
        central_crop: share of an image's area around its centre that is kept.
        **options: options of :func:`cxc_eccv.evaluate`: ``tasks``, ``metrics``, ``per_query`` and so on.

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
    """Encode a split, or its first images; returns the run and whether it was cached.

    ``scoring`` are the options of ``evaluate``, whose errors are raised before the work.
    """
    from cxc_eccv.encoding import encode_once

    if loaded.is_cross_encoder:
        raise InvalidOption(
            f"{loaded.name} scores pairs, of which the test split has 125 million; re-rank the top of a dual encoder "
            "with it (cxc-eccv encode --rerank EMBEDDINGS --output lists.parquet), and evaluate these rankings"
        )
    if "images" in loaded.sides and images is None:
        raise InvalidOption(f"{loaded.name} encodes images; give their folder with images (--images)")
    check_request(loaded.sides, **scoring)
    items = split_items(loaded.sides, scoring["data_dir"], scoring["split"], images, scoring["limit"])
    run, cached = encode_once(loaded, file, **items, **options)
    return replace(run, model=loaded.title), cached  # a cached encoding may have another name


def split_items(
    sides: tuple[str, ...],
    library: Library,
    split: str,
    images: str | Path | None,
    limit: int | None = None,
    *,
    collection: Collection = COCO,
) -> dict[str, Any]:
    """The arguments of ``encode`` for these sides of a split: (id, file) pairs of images, and a table of captions."""
    if limit is not None:
        check_whole("limit", limit)
    content = collection.content(library, split)
    first = None if limit is None else first_images(content.image_ids, limit)

    def shorten(table: pa.Table) -> pa.Table:
        return table if first is None else table.filter(np.isin(table["image_id"], first))

    items: dict[str, Any] = {}
    if "images" in sides and images is not None:
        table, files = shorten(content.images), ImageFolder(images)
        pairs = zip(table["image_id"].to_pylist(), table["file_name"].to_pylist(), strict=True)
        # A missing file keeps its name, for the message.
        items["images"] = [(number, files.find(name) or files.folder / name) for number, name in pairs]
    if "captions" in sides:
        items["captions"] = shorten(content.captions)
    return items
