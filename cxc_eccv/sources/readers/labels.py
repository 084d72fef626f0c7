"""Label files: (image, caption) pairs that people judged, as a source of labels with a name of its own.

A Parquet file with a pair per row; its metadata says who asked what, by which rule answers became labels, and of which
data the pairs are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource, SourceMissing
from cxc_eccv.parquet import write_parquet
from cxc_eccv.sources.reading import parse_metadata, read_table, shown
from cxc_eccv.types.splits import SPLITS
from cxc_eccv.writing import replaced_file

__all__ = ["LABELS_FACTS", "LABELS_FORMAT", "LABELS_SCHEMA", "LabelFile", "read_labels", "write_labels"]

LABELS_SCHEMA = pa.schema(
    [
        pa.field("image_id", pa.int64(), nullable=False),
        pa.field("caption_id", pa.int64(), nullable=False),
        pa.field("gain", pa.float64(), nullable=False),
        pa.field("positive", pa.bool_(), nullable=False),
        pa.field("answers", pa.int32(), nullable=False),
    ]
)
"""``gain`` is in [0, 1], above 0 where ``positive`` and below 1 elsewhere; ``answers`` counts people who answered."""

LABELS_FACTS = b"cxc_eccv"
"""Metadata key of the facts, in JSON."""

LABELS_FORMAT = 1

FACTS: Mapping[str, type] = {
    "schema": int,
    "kind": str,
    "name": str,
    "version": str,
    "collection": str,
    "split": str,
    "rule": str,
    "scheme": str,
    "people": int,
    "models": list,
    "data": dict,
}

CONSTANT: Mapping[str, Any] = {"schema": LABELS_FORMAT, "kind": "labels", "collection": "coco"}
"""Facts that are the same in every file; the writer adds them."""

TERMS = ("licence", "citation")
"""Facts that a file need not have."""

TOLD = ("version", "scheme", "rule", "people", "licence")

NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True, eq=False)
class LabelFile:
    """Pairs of one split, each once: a table of ``LABELS_SCHEMA``, and the facts of the file.

    ``facts`` has the ``name`` and ``version`` of the labels, ``collection`` and ``split``; ``scheme``, what people were
    asked, ``rule``, how their answers became labels, ``people``, how many answered, ``models``, which proposed pairs;
    ``data``, whose ``content`` is the fingerprint of the split that the pairs are of; and where they are stated
    ``licence`` and ``citation``. ``path`` is where the file
    lies, and ``origin`` the dataset on the Hub that it is from: ``repository`` and ``revision``.
    """

    path: Path
    table: pa.Table
    facts: Mapping[str, Any]
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the source of labels."""
        return str(self.facts["name"])

    @property
    def split(self) -> str:
        """Of the images and captions."""
        return str(self.facts["split"])

    @property
    def told(self) -> dict[str, Any]:
        """What reports and manifests say of the labels: whose, by which rule, on which terms, from where on the Hub."""
        facts = {name: self.facts[name] for name in TOLD if name in self.facts}
        counts = {"pairs": self.table.num_rows, "positive": int(np.count_nonzero(self.table["positive"]))}
        return {**facts, **counts, **self.origin}


def write_labels(path: Path, table: pa.Table, facts: Mapping[str, Any]) -> LabelFile:
    """Write a label file, whole or not at all; what :func:`read_labels` would refuse is not written.

    Args:
        path: the ``.parquet`` file.
        table: of ``LABELS_SCHEMA``.
        facts: as of :class:`LabelFile`, without those that are the same in every file.
    """
    labels = _check(path, table, {**facts, **CONSTANT})
    metadata = {LABELS_FACTS: json.dumps(labels.facts, ensure_ascii=False)}
    with replaced_file(path) as part:
        write_parquet(labels.table.replace_schema_metadata(metadata), part)
    return labels


def read_labels(path: Path) -> LabelFile:
    """The labels in a Parquet file that ``cxc-eccv annotate merge`` wrote."""
    if not path.is_file():
        raise SourceMissing(f"{path}: there is no such label file; cxc-eccv annotate merge writes one")
    table = read_table(path, "labels, as cxc-eccv annotate merge writes them")
    expected = "whose labels these are, in a file that cxc-eccv annotate merge wrote"
    return _check(path, table, parse_metadata(path, table, LABELS_FACTS, expected))


def _check(path: Path, table: pa.Table, facts: Any) -> LabelFile:  # noqa: ANN401 - what a file says
    _check_facts(path, facts)
    for column in LABELS_SCHEMA:
        if column.name not in table.column_names or table.schema.field(column.name).type != column.type:
            found = f"columns {', '.join(f'{own.name} {own.type}' for own in table.schema)}"
            raise MalformedSource(path, "", found, f"{column.name} {column.type}")
        if table[column.name].null_count:
            raise MalformedSource(path, column.name, f"{table[column.name].null_count} nulls", "a value in every row")
    table = table.select(LABELS_SCHEMA.names).cast(LABELS_SCHEMA)
    if not table.num_rows:
        raise MalformedSource(path, "", "no row", "at least one labelled pair")
    _check_rows(path, table)
    return LabelFile(path, table, facts)


def _check_facts(path: Path, facts: Any) -> None:  # noqa: ANN401 - what a file says
    stated = [name for name in TERMS if isinstance(facts, dict) and name in facts]
    for name, kind in [*FACTS.items(), *((name, str) for name in stated)]:
        found = facts.get(name) if isinstance(facts, dict) else facts
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            raise MalformedSource(path, f"metadata, {name}", shown(found), f"a value of kind {kind.__name__}")
    expected = {
        **{name: (facts[name] == value, repr(value)) for name, value in CONSTANT.items()},
        "name": (NAME.fullmatch(facts["name"]), "a name of small letters, digits and _ that begins with a letter"),
        "version": (facts["version"].strip(), "a version, as 1.0.0"),
        "split": (facts["split"] in SPLITS, f"one of {', '.join(SPLITS)}"),
        "people": (facts["people"] > 0, "a number of people, from 1 on"),
        "data": (isinstance(facts["data"].get("content"), str), "an entry content, the fingerprint of the split"),
    }
    for name, (holds, what) in expected.items():
        if not holds:
            raise MalformedSource(path, f"metadata, {name}", shown(facts[name]), what)


def _check_rows(path: Path, table: pa.Table) -> None:
    gains, positive, answers = (np.asarray(table[name]) for name in ("gain", "positive", "answers"))
    pairs = np.stack([np.asarray(table["image_id"]), np.asarray(table["caption_id"])], axis=1)
    order = np.lexsort(pairs.T)
    again = order[1:][(np.diff(pairs[order], axis=0) == 0).all(axis=1)]
    wrong = {
        "a number in [0, 1]": ("gain", np.flatnonzero(~((gains >= 0) & (gains <= 1)))),
        "a gain above 0 where positive is true": ("gain", np.flatnonzero(positive & (gains == 0))),
        "a gain below 1 where positive is false": ("gain", np.flatnonzero(~positive & (gains == 1))),
        "a number of people, from 1 on": ("answers", np.flatnonzero(answers < 1)),
        "every pair of image_id and caption_id once": ("caption_id", again),
    }
    for expected, (column, rows) in wrong.items():
        if rows.size:
            row = int(rows[0])
            raise MalformedSource(path, f"row {row}", f"{column} {table[column][row].as_py()}", expected)
