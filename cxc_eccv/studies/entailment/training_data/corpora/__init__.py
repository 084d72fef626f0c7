"""Corpora of labelled pairs: each module of this package declares one as ``CORPUS``, or several as ``CORPORA``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.discovery import import_modules
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.types import FloatArray, IntArray

LABELLED_SCHEMA = pa.schema(
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
"""The schema of labelled pairs.

``premise`` has the captions of an image joined by spaces, or is empty; ``image`` is a file name or null; ``label`` 1
(entailed) or 0; ``rating`` the grade from 0 to 5 behind the label, or null; ``kind`` ``text``, ``visual`` or
``multimodal``; ``image_key`` identifies the image (``coco/391895``, ``flickr30k/1000092795``) and ``caption_key`` the
hypothesis (``coco/770337``); both may be null.
"""

THRESHOLD = 3.0
"""The lowest positive rating, of 0 to 5, in the paper."""

OF_PAIRS = ("image", "hypothesis", "label", "rating", "image_key", "caption_key")
PAIRS_SCHEMA = pa.schema([("premises", pa.list_(pa.string())), *map(LABELLED_SCHEMA.field, OF_PAIRS)])


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Labelled pairs of one part of a corpus, and the number of rows that each rule left out.

    The table is like ``LABELLED_SCHEMA``, but its premise is a list of captions, and it names images whose files are
    missing.
    """

    table: pa.Table
    left_out: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """One source of labelled pairs. To add one, declare a ``CORPUS`` in a file of ``training_data/corpora``.

    Attributes:
        name: used in the names of its parts, and in ``source``.
        rule: the rule for positives, in words.
        groups: groups of raw files in the catalog, for licences and citations; the corpus's group first.
        parts: ``train``, ``restval``, ``val`` or ``test``.
        pairs: function of (library, part) that gives its pairs.
    """

    name: str
    rule: str
    groups: tuple[str, ...]
    parts: tuple[str, ...]
    pairs: Callable[[Library, str], Pairs]


def make_pairs(
    premises: pa.Array | Sequence[Sequence[str]],
    hypotheses: pa.Array | Sequence[str],
    labels: Any,  # noqa: ANN401 - whatever Arrow takes
    left_out: Mapping[str, int] | None = None,
    **others: Any,  # noqa: ANN401 - likewise
) -> Pairs:
    """Make Pairs; ``image``, ``rating``, ``image_key`` and ``caption_key`` are optional."""
    given = {"premises": premises, "hypothesis": hypotheses, "label": labels, **others}
    n_rows = len(hypotheses)
    columns = [
        _column(given[field.name], field.type) if field.name in given else pa.nulls(n_rows, field.type)
        for field in PAIRS_SCHEMA
    ]
    return Pairs(pa.table(columns, schema=PAIRS_SCHEMA), left_out or {})


def _column(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:  # noqa: ANN401 - likewise
    return values.cast(kind) if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, kind)


def join_captions(captions: pa.ListArray) -> pa.Array:
    """The premise of each list of captions: the trimmed captions, joined by spaces."""
    texts = pc.utf8_trim_whitespace(captions.flatten())
    offsets = np.append(0, np.cumsum(pc.list_value_length(captions))).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), " ")


def premises_of(content: Split, image_ids: IntArray) -> list[str]:
    """The premise of each image: all its captions, joined."""
    premises: list[str] = join_captions(content.captions_of(image_ids)).to_pylist()
    return premises


def reaches(ratings: FloatArray) -> pa.Array:
    """Labels: 1 if the rating is at least :data:`THRESHOLD`, else 0."""
    return pa.array((ratings >= THRESHOLD).astype(np.int8))


@cache
def corpora() -> Mapping[str, Corpus]:
    """Every corpus by name, in alphabetical order."""
    modules = import_modules(sys.modules[__name__]).values()
    declared: list[Corpus] = []
    for module in modules:
        declared += getattr(module, "CORPORA", None) or (module.CORPUS,)
    return MappingProxyType({corpus.name: corpus for corpus in sorted(declared, key=lambda corpus: corpus.name)})
