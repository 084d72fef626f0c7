"""Look up texts and file names by id, and build nested columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray, positions_of


def caption_texts(library: Library, split: str, ids: IntArray) -> pa.Array:
    """The captions' raw texts; null for ids outside the split."""
    return _look_up(library.captions(split), "caption_id", "text", ids)


def file_names(library: Library, split: str, ids: IntArray) -> pa.Array:
    """The images' file names; null for ids outside the split."""
    return _look_up(library.images(split), "image_id", "file_name", ids)


def images_of(library: Library, split: str, caption_ids: IntArray) -> IntArray:
    """The image that each caption was written for; every id must be in the split."""
    content = library.karpathy(split)
    return content.caption_image_ids[positions_of(caption_ids, content.caption_ids)[0]]


def _look_up(table: pa.Table, key: str, value: str, ids: IntArray) -> pa.Array:
    places, known = positions_of(ids, np.asarray(table[key]))
    return table[value].combine_chunks().take(pa.array(places, mask=~known))


def captions_by_image(library: Library, split: str) -> tuple[IntArray, IntArray]:
    """The order that sorts the split's captions by image, and the number of captions of each image."""
    content = library.karpathy(split)
    places = positions_of(content.caption_image_ids, content.image_ids)[0]
    return np.argsort(places, kind="stable"), np.bincount(places, minlength=content.image_ids.size)


def list_column(sizes: IntArray, values: pa.Array | NDArray[Any]) -> pa.ListArray:
    """One list per row, of the next ``sizes[row]`` values."""
    return pa.ListArray.from_arrays(np.append(0, np.cumsum(sizes)).astype(np.int32), values)


def struct_lists(sizes: IntArray, columns: dict[str, pa.Array | NDArray[Any]]) -> pa.ListArray:
    """One list of structs per row, of the next ``sizes[row]`` values of every column."""
    return list_column(sizes, pa.StructArray.from_arrays(list(columns.values()), names=list(columns)))


def nullable(values: NDArray[np.float64]) -> pa.Array:
    """Float column with null for NaN."""
    return pa.array(values, mask=np.isnan(values))


def subset_lists(flags: NDArray[np.bool_], names: Sequence[str]) -> pa.Array:
    """For each row, the names whose flags are set."""
    n_names = len(names)
    every = [[name for bit, name in enumerate(names) if code >> bit & 1] for code in range(2**n_names)]
    codes = flags @ (1 << np.arange(n_names)) if n_names else np.zeros(flags.shape[0], dtype=np.int64)
    return pa.array(every, pa.list_(pa.string())).take(pa.array(codes))
