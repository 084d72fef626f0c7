"""Weak positives: (image, caption) pairs that a classifier takes to be entailed, mined from a retriever's lists.

A Parquet file with a pair per row; its metadata says what mined it, by what rule, and from which data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource, SourceMissing
from cxc_eccv.sources.reading import parse_metadata, read_table, shown
from cxc_eccv.types.splits import SPLITS

__all__ = ["MINED_FACTS", "MINED_FORMAT", "MINED_SCHEMA", "MinedPairs", "read_mined"]

NAMES = pa.dictionary(pa.int32(), pa.string())

MINED_SCHEMA = pa.schema(
    [
        pa.field("image_id", pa.int64(), nullable=False),
        pa.field("caption_id", pa.int64(), nullable=False),
        pa.field("score", pa.float32(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("classifier", NAMES, nullable=False),
        pa.field("retriever", NAMES, nullable=False),
        pa.field("rule", NAMES, nullable=False),
    ]
)
"""``score`` is the rule's probability of being entailed; ``rank``, from 1, counts captions of other images alone."""

MINED_FACTS = b"cxc_eccv"
"""Metadata key of the facts, in JSON."""

MINED_FORMAT = 1

COLLECTIONS = ("coco", "flickr30k")

FACTS: Mapping[str, type] = {
    "schema": int,
    "collection": str,
    "split": str,
    "classifier": dict,
    "retriever": dict,
    "rule": dict,
    "data": dict,
}


@dataclass(frozen=True, slots=True, eq=False)
class MinedPairs:
    """Pairs of one split, each once: a table of ``MINED_SCHEMA``, and the facts of the file.

    ``facts`` has ``collection`` and ``split``; ``classifier`` and ``retriever`` with name and fingerprint; ``rule``;
    and ``data``, whose ``content`` is the fingerprint of the split that it was mined from.
    """

    table: pa.Table
    facts: Mapping[str, Any]

    @property
    def collection(self) -> str:
        """``coco`` or ``flickr30k``."""
        return str(self.facts["collection"])

    @property
    def split(self) -> str:
        """Of the images and captions."""
        return str(self.facts["split"])


def read_mined(path: Path) -> MinedPairs:
    """The weak positives in a Parquet file that ``cxc-eccv mine`` wrote."""
    if not path.is_file():
        raise SourceMissing(f"{path}: there is no such file of weak positives; cxc-eccv mine --output writes one")
    table = read_table(path, "weak positives, as cxc-eccv mine writes them")
    facts = _facts(path, table)
    for field in MINED_SCHEMA:
        if field.name not in table.column_names or table.schema.field(field.name).type != field.type:
            found = f"columns {', '.join(f'{own.name} {own.type}' for own in table.schema)}"
            raise MalformedSource(path, "", found, f"{field.name} {field.type}")
        if table[field.name].null_count:
            raise MalformedSource(path, field.name, f"{table[field.name].null_count} nulls", "a value in every row")
    table = table.select(MINED_SCHEMA.names)
    _check_rows(path, table)
    return MinedPairs(table, facts)


def _facts(path: Path, table: pa.Table) -> dict[str, Any]:
    facts = parse_metadata(path, table, MINED_FACTS, "how it was mined, in a file that cxc-eccv mine wrote")
    for name, kind in FACTS.items():
        if not isinstance(facts.get(name), kind):
            raise MalformedSource(path, f"metadata, {name}", shown(facts.get(name)), f"a value of kind {kind.__name__}")
    if facts["schema"] != MINED_FORMAT:
        raise MalformedSource(
            path, "metadata, schema", shown(facts["schema"]), f"{MINED_FORMAT}, which this version reads"
        )
    if facts["collection"] not in COLLECTIONS:
        raise MalformedSource(path, "metadata, collection", shown(facts["collection"]), " or ".join(COLLECTIONS))
    if facts["split"] not in SPLITS:
        raise MalformedSource(path, "metadata, split", shown(facts["split"]), f"one of {', '.join(SPLITS)}")
    return facts


def _check_rows(path: Path, table: pa.Table) -> None:
    scores, ranks = np.asarray(table["score"]), np.asarray(table["rank"])
    pairs = np.stack([np.asarray(table["image_id"]), np.asarray(table["caption_id"])], axis=1)
    order = np.lexsort(pairs.T)
    again = order[1:][(np.diff(pairs[order], axis=0) == 0).all(axis=1)]
    wrong = {
        "a number in [0, 1]": ("score", np.flatnonzero(~((scores >= 0) & (scores <= 1)))),
        "a rank from 1 on": ("rank", np.flatnonzero(ranks < 1)),
        "every pair of image_id and caption_id once": ("caption_id", again),
    }
    for expected, (column, rows) in wrong.items():
        if rows.size:
            found = f"{column} {table[column][int(rows[0])].as_py()}"
            raise MalformedSource(path, f"row {int(rows[0])}", found, expected)
