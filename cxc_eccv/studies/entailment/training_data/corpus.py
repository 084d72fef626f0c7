"""Corpus: the declaration of where labelled pairs come from; Pairs, what one part of it holds; the schema of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.splits import SPLIT_OF_RAW
from cxc_eccv.types import FloatArray, IntArray, positions_of

SCHEMA = pa.schema(
    [
        ("premise", pa.string()),
        ("image", pa.string()),
        ("hypothesis", pa.string()),
        ("label", pa.int8()),
        ("rating", pa.float32()),
        ("kind", pa.string()),
        ("source", pa.string()),
        ("image_key", pa.string()),
        ("caption_key", pa.string()),
    ]
)
"""Of all labelled pairs.

``premise`` has the captions of an image joined by blanks, and is empty where there is none; ``image`` is a file name or
null; ``label`` 1 (entailed) or 0; ``rating`` the grade from 0 to 5 that the label was made of, or null; ``kind``
``text``, ``visual`` or ``multimodal``; ``image_key`` keeps the pairs of an image together (``coco/391895``,
``flickr30k/1000092795``), ``caption_key`` is that of the hypothesis (``coco/770337``); both may be null.
"""

OF_PAIRS = ("image", "hypothesis", "label", "rating", "image_key", "caption_key")
PAIRS_SCHEMA = pa.schema([("premises", pa.list_(pa.string())), *map(SCHEMA.field, OF_PAIRS)])

SPLITS = {raw: split for raw, split in SPLIT_OF_RAW.items() if raw != "restval"}
"""Split as the name of a part has it to its name in the library."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Labelled pairs of one part of a corpus, and rule to the number of rows that it left out.

    The table is as ``SCHEMA``, but a premise's captions stand apart, and the image is named whether or not it is at
    hand.
    """

    table: pa.Table
    left_out: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """One source of labelled pairs. A new one is a ``CORPUS`` in a file of ``training_data/corpora``.

    Attributes:
        name: as in the names of its parts, and in ``source``.
        kinds: of the pairs that it can yield, where images are at hand.
        rule: what makes a pair positive, in words.
        groups: of raw files, as in the catalog, for licences and citations; its own first.
        expected: part (``train``, ``val``, ``test``) to its number of pairs, as far as that is known.
        pairs: (library, part, lowest rating that is a positive) to its pairs.
        place: where it is on the Hugging Face Hub; empty for raw files of the catalog.
        published: the count of the paper's Table 2, as printed, of ``published_parts``; a ``remark`` explains it.
    """

    name: str
    title: str
    kinds: tuple[str, ...]
    rule: str
    groups: tuple[str, ...]
    expected: Mapping[str, int | None]
    pairs: Callable[[Library, str, float], Pairs]
    place: str = ""
    published: str = ""
    published_parts: tuple[str, ...] = ()
    remark: str = ""


def make_pairs(
    premises: pa.Array | Sequence[Sequence[str]],
    hypotheses: pa.Array | Sequence[str],
    labels: Any,  # noqa: ANN401 - whatever Arrow takes
    left_out: Mapping[str, int] | None = None,
    **others: Any,  # noqa: ANN401 - likewise
) -> Pairs:
    """Pairs of which not everything is given: ``image``, ``rating``, ``image_key`` and ``caption_key`` may lack."""
    given = {"premises": premises, "hypothesis": hypotheses, "label": labels, **others}
    n_rows = len(hypotheses)
    columns = [
        _column(given[field.name], field.type) if field.name in given else pa.nulls(n_rows, field.type)
        for field in PAIRS_SCHEMA
    ]
    return Pairs(pa.table(columns, schema=PAIRS_SCHEMA), left_out or {})


def _column(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:  # noqa: ANN401 - likewise
    return values.cast(kind) if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, kind)


def keys(collection: str, ids: IntArray) -> list[str]:
    """``coco/391895`` and its like."""
    return [f"{collection}/{number}" for number in ids.tolist()]


def captions_of_images(content: KarpathySplit, image_ids: IntArray) -> pa.ListArray:
    """The captions of each of these images of the split, in the order of the raw file."""
    places = positions_of(content.caption_image_ids, content.image_ids)[0]
    offsets = np.append(0, np.cumsum(np.bincount(places, minlength=content.image_ids.size))).astype(np.int32)
    texts = content.captions["text"].combine_chunks().take(pa.array(np.argsort(places, kind="stable")))
    return pa.ListArray.from_arrays(offsets, texts).take(pa.array(positions_of(image_ids, content.image_ids)[0]))


def join_captions(captions: pa.ListArray) -> pa.Array:
    """The premise that each list of captions makes: without blanks at their ends, a blank between two of them."""
    texts = pc.utf8_trim_whitespace(captions.flatten())
    offsets = np.append(0, np.cumsum(pc.list_value_length(captions))).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), " ")


def premises_of(content: KarpathySplit, image_ids: IntArray) -> list[str]:
    """The premise of each of these images of the split: all its captions, joined."""
    premises: list[str] = join_captions(captions_of_images(content, image_ids)).to_pylist()
    return premises


def reaches(ratings: FloatArray, threshold: float) -> pa.Array:
    """Label 1 where a rating is at least the threshold."""
    return pa.array((ratings >= threshold).astype(np.int8))
