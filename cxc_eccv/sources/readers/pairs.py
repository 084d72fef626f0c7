"""Parquet files of (image, caption) pairs with facts in their metadata; and mined weak positives, in such a file.

The facts say who made the pairs, by which rule, and from which data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedSource, SourceMissing
from cxc_eccv.sources.catalog import SPLITS
from cxc_eccv.sources.reading import first_repeated_pair, parse_metadata, read_table, shown


def whole_rows(**types: pa.DataType) -> pa.Schema:
    """A schema of columns without nulls."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


MINED_SCHEMA = whole_rows(
    image_id=pa.int64(),
    caption_id=pa.int64(),
    score=pa.float32(),
    rank=pa.int32(),
    **dict.fromkeys(("classifier", "retriever", "rule"), pa.dictionary(pa.int32(), pa.string())),
)
"""``score`` is the probability of entailment under the rule; ``rank``, from 1, counts only captions of other images."""

FACTS_KEY = b"cxc_eccv"
"""Metadata key of the facts, in JSON."""

MINED_FORMAT = 1

PAIR_FACTS: Mapping[str, type] = {
    "schema": int,
    **dict.fromkeys(("collection", "split"), str),
    **dict.fromkeys(("classifier", "retriever", "rule", "data"), dict),
}

COLLECTIONS = ("coco", "flickr30k")


@dataclass(frozen=True, slots=True, eq=False)
class MinedPairs:
    """Pairs of one split, each once: a table of ``MINED_SCHEMA``, and the facts of the file."""

    table: pa.Table
    facts: Mapping[str, Any]

    @property
    def collection(self) -> str:
        """``coco`` or ``flickr30k``."""
        return str(self.facts["collection"])

    @property
    def split(self) -> str:
        """The split of the images and captions."""
        return str(self.facts["split"])


def read_pairs(path: Path, what: str, writer: str) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the facts of a file that the command ``writer`` wrote."""
    if not path.is_file():
        raise SourceMissing(f"{path}: there is no such file of {what}. {writer} writes such files.")
    table = read_table(path, f"{what}, as {writer} writes them")
    return table, parse_metadata(path, table, FACTS_KEY, f"the facts that {writer} writes")


def read_mined(path: Path) -> MinedPairs:
    """The weak positives in a Parquet file that ``cxc-eccv mine`` wrote."""
    table, facts = read_pairs(path, "weak positives", "cxc-eccv mine")
    check_kinds(path, facts, PAIR_FACTS)
    check_facts(
        path,
        facts,
        {
            "schema": (facts["schema"] == MINED_FORMAT, f"{MINED_FORMAT}, which this version reads"),
            "collection": (facts["collection"] in COLLECTIONS, " or ".join(COLLECTIONS)),
            "split": (facts["split"] in SPLITS, f"one of {', '.join(SPLITS)}"),
        },
    )
    table = check_columns(path, table, MINED_SCHEMA)
    scores, ranks = np.asarray(table["score"]), np.asarray(table["rank"])
    wrong = {
        "a number in [0, 1]": ("score", ~((scores >= 0) & (scores <= 1))),
        "a rank of at least 1": ("rank", ranks < 1),
    }
    check_rows(path, table, wrong)
    return MinedPairs(table, facts)


def check_kinds(path: Path, facts: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Refuse the first fact that is missing or of another kind."""
    for name, kind in kinds.items():
        value = facts.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise MalformedSource(path, f"metadata, {name}", shown(value), f"a value of kind {kind.__name__}")


def check_facts(path: Path, facts: Mapping[str, Any], expected: Mapping[str, tuple[object, str]]) -> None:
    """Refuse the first wrong fact; ``expected`` has for each whether it is right, and what is expected."""
    for name, (holds, what) in expected.items():
        if not holds:
            raise MalformedSource(path, f"metadata, {name}", shown(facts[name]), what)


def check_columns(path: Path, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema; refuse missing columns, other types and nulls."""
    for column in schema:
        if column.name not in table.column_names or table.schema.field(column.name).type != column.type:
            actual = f"columns {', '.join(f'{field.name} {field.type}' for field in table.schema)}"
            raise MalformedSource(path, "", actual, f"{column.name} {column.type}")
        if table[column.name].null_count:
            raise MalformedSource(path, column.name, f"{table[column.name].null_count} nulls", "a value in every row")
    return table.select(schema.names)


def check_rows(path: Path, table: pa.Table, wrong: Mapping[str, tuple[str, NDArray[np.bool_]]]) -> None:
    """Refuse the first wrong row, or a repeated pair; ``wrong`` has the column and the bad rows of each expectation."""
    for expected, (column, flags) in wrong.items():
        if flags.any():
            row = int(np.argmax(flags))
            raise MalformedSource(path, f"row {row}", f"{column} {table[column][row].as_py()}", expected)
    twice = first_repeated_pair(*(np.asarray(table[name]) for name in ("image_id", "caption_id")))
    if twice is not None:
        actual = f"caption_id {table['caption_id'][twice].as_py()}"
        raise MalformedSource(path, f"row {twice}", actual, "every pair of image_id and caption_id once")
