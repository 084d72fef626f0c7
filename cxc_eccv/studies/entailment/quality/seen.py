"""Hashes of the pairs that a classifier was trained on, in a file beside the model.

A pair has two hashes: of hypothesis and premise, and of hypothesis and image; of texts only letters and digits count,
in lower case. So a pair is recognised in another file, with or without its image.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedSource
from cxc_eccv.parquet import read_parquet, write_parquet
from cxc_eccv.studies.entailment.training_data import plain_texts
from cxc_eccv.types import IntArray
from cxc_eccv.writing import replaced_file

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.answerer import Announced, Answerer

SEEN_FILE = "pairs_seen.parquet"

SCHEMA = pa.schema([("pair", pa.int64()), ("trained", pa.bool_())])

COMPLETE = b"complete"


@dataclass(frozen=True, slots=True, eq=False)
class SeenPairs:
    """Hashes of the pairs a classifier was trained on, and of those that chose its checkpoint and calibration."""

    trained: IntArray
    held_out: IntArray
    complete: bool = True

    def among(self, pairs: pa.Table) -> dict[str, NDArray[np.bool_]]:
        """``trained`` and ``held_out``: (N,) whether each pair was seen in that use; a pair in both is ``trained``."""
        hashes, known = _hash(pairs)
        trained, held_out = (
            np.asarray((np.isin(hashes, seen) & known).any(axis=1)) for seen in (self.trained, self.held_out)
        )
        return {"trained": trained, "held_out": held_out & ~trained}

    def warn(self, pairs: pa.Table) -> tuple[str, ...]:
        """The warnings of a report on these pairs; none if no pair was seen."""
        counts = {use: int(mask.sum()) for use, mask in self.among(pairs).items()}
        phrases = {
            "trained": "the classifier was trained on {:,}",
            "held_out": "its checkpoint, threshold and calibration were chosen on {:,}",
        }
        uses = [phrases[use].format(count) for use, count in counts.items() if count]
        if not uses:
            return ()
        text = ", and ".join(uses)
        return (f"Of these {pairs.num_rows:,} pairs {text}: expect lower numbers on other pairs.",)


def record_seen(
    folder: Path, trained: pa.Table, held_out: pa.Table, before: str | None = None, *, is_first: bool = True
) -> SeenPairs:
    """Write which pairs a model has seen into its folder, with those of ``before``, the classifier it continued."""
    uses = [_distinct(trained), _distinct(held_out)]
    old = None if before is None else _seen_at(before)
    if old is not None:
        uses = [np.union1d(new, known) for new, known in zip(uses, (old.trained, old.held_out), strict=True)]
    seen = SeenPairs(uses[0], uses[1], before is None or (old is not None and old.complete))
    if is_first:
        flags = np.repeat([True, False], [seen.trained.size, seen.held_out.size])
        with replaced_file(folder / SEEN_FILE) as part:
            schema = SCHEMA.with_metadata({COMPLETE: str(int(seen.complete))})
            write_parquet(pa.table([np.concatenate(uses), flags], schema=schema), part)
    return seen


def read_seen(path: Path) -> SeenPairs:
    """Read a file that :func:`record_seen` wrote."""
    try:
        table = read_parquet(path)
    except pa.ArrowInvalid as error:
        raise MalformedSource(path, "", str(error), "a table of hashes, as written by the trainer") from None
    if table.schema.remove_metadata() != SCHEMA or any(column.null_count for column in table.columns):
        raise MalformedSource(path, "", f"columns {', '.join(table.column_names)}", "pair (int64) and trained (bool)")
    pairs, trained = (np.asarray(table[name]) for name in SCHEMA.names)
    return SeenPairs(pairs[trained], pairs[~trained], (table.schema.metadata or {}).get(COMPLETE) == b"1")


def seen_by(classifier: Answerer | Announced) -> SeenPairs | None:
    """The pairs that a classifier has seen; None if it has no record."""
    return _seen_at(classifier.source, classifier.commit)


def _seen_at(source: str, revision: str | None = None) -> SeenPairs | None:
    from cxc_eccv.encoding.models import find_file  # needs torch

    path = find_file(source, SEEN_FILE, revision) if source else None
    return None if path is None else read_seen(path)


def _distinct(pairs: pa.Table) -> IntArray:
    hashes, known = _hash(pairs)
    return np.unique(hashes[known])


def _hash(pairs: pa.Table) -> tuple[IntArray, NDArray[np.bool_]]:
    """(N, 2) hashes of hypothesis with premise and with image, and (N, 2) whether there is a premise or an image."""
    hypotheses = plain_texts(pairs["hypothesis"].combine_chunks()).to_pylist()
    premises = plain_texts(pairs["premise"].combine_chunks()).to_pylist()
    sides = [[premise or None for premise in premises], pairs["image_key"].to_pylist()]
    known = np.array([[value is not None for value in side] for side in sides], dtype=bool).reshape(2, -1).T
    hashes = [
        [_number(what, side, text) for side, text in zip(values, hypotheses, strict=True)]
        for what, values in zip(("premise", "image"), sides, strict=True)
    ]
    return np.array(hashes, dtype=np.int64).reshape(2, -1).T, known


def _number(what: str, side: str | None, hypothesis: str) -> int:
    digest = blake2b(f"{what}\0{side}\0{hypothesis}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
