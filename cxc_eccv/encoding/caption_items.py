"""The captions to encode: an id and a text each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.runs.checks import checked_ids
from cxc_eccv.types import IntArray

__all__ = ["caption_items"]

COLUMNS = ("caption_id", "text")


def caption_items(captions: Any) -> tuple[IntArray, list[str]]:  # noqa: ANN401 - a table, a dataset, or pairs
    """Ids and texts.

    Args:
        captions: a pyarrow table, or anything else with columns ``caption_id`` and ``text`` by name (a dataset, a data
            frame, a dict of lists); or (caption id, text) each.

    Raises:
        InvalidOption: no caption, a column is missing, or an entry is no such pair.
        MalformedRun: ids that repeat or are no whole numbers, a text that is none.

    Example:
        >>> caption_items([(770337, "A man on a moped.")])
        (array([770337]), ['A man on a moped.'])
    """
    ids, texts = _columns(captions)
    if not ids:
        raise InvalidOption("no caption to encode; give at least one")
    for number, text in zip(ids, texts, strict=True):
        if not isinstance(text, str):
            raise MalformedRun(f"captions: that of id {number} is {text!r}, no text; give every caption a text")
    return checked_ids("captions", "caption_id", np.asarray(ids)), texts


def _columns(captions: Any) -> tuple[list[Any], list[Any]]:  # noqa: ANN401
    names = getattr(captions, "column_names", None) or list(getattr(captions, "keys", list)())
    if not names:
        pairs = list(captions)
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise InvalidOption("captions: give (caption id, text) each, or a table with caption_id and text")
        return [number for number, _ in pairs], [text for _, text in pairs]
    lacking = [name for name in COLUMNS if name not in list(names)]
    if lacking:
        raise InvalidOption(f"captions: have the columns {', '.join(names)}, lack {' and '.join(lacking)}")
    ids, texts = (captions[name] for name in COLUMNS)
    if isinstance(captions, pa.Table):
        return ids.to_pylist(), texts.to_pylist()
    return list(ids), list(texts)
