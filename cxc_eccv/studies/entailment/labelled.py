"""Labelled pairs to measure a classifier on, and hashes of those that it was trained on, in a file beside the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing
from cxc_eccv.parquet import write_parquet
from cxc_eccv.sources.columns import fold_names, refuse_misnamed
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import LABELS_SCHEMA, LabelFile, read_entailment, read_labels
from cxc_eccv.sources.reading import read_table, shown
from cxc_eccv.studies.entailment.training_data import (
    LABELLED_SCHEMA,
    as_labelled,
    load_training_data,
    make_pairs,
    pairs_of_labels,
    part_of,
    plain_texts,
)
from cxc_eccv.studies.trainers.training_record import make_keys
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.writing import replaced_file

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.scoring import Classifier

SUFFIXES = (".parquet", ".csv", ".jsonl")
PAIR_IDS = ("image_id", "caption_id")
ORDERED = ("image_key", "caption_key", "image", "premise", "hypothesis")
"""Columns that show whether scored pairs are in the order of the labelled ones."""

Asked = tuple[list[str], "list[Path | None] | None", list[str]]


@dataclass(frozen=True, slots=True, eq=False)
class LabelledPairs:
    """Labelled pairs of a part (``cxc/val``) or of a file; ``left_out`` counts rows by the rule that left them out."""

    name: str
    table: pa.Table
    left_out: Mapping[str, int]

    @property
    def labels(self) -> IntArray:
        """(N,) 1 or 0."""
        return np.asarray(self.table["label"], dtype=np.int64)

    @property
    def images(self) -> NDArray[np.object_]:
        """(N,) groups of dependent pairs: the key of the image, else its file, else the premise."""
        columns = (self.table[name] for name in ("image_key", "image", "premise"))
        return np.asarray(pc.coalesce(*columns).to_pylist(), dtype=object)

    def align(self, scored: pa.Table, path: Path) -> FloatArray:
        """(N,) probabilities of a table of the same pairs, matched by ids if it has them, else by order."""
        probabilities = np.asarray(scored["probability"], dtype=np.float64)
        if {"image_id", "caption_id"} <= set(scored.column_names):
            keys = [pc.binary_join_element_wise("coco", pc.cast(scored[name], pa.string()), "/") for name in PAIR_IDS]
            index = pd.MultiIndex.from_arrays([column.to_pylist() for column in keys])
            if not index.is_unique:
                row = int(np.argmax(index.duplicated()))
                first = int(np.argmax(index == index[row]))
                raise DataError(f"{path}: row {row} repeats the pair of row {first}; give every pair once")
            pairs = [self.table[name].to_pylist() for name in ("image_key", "caption_key")]
            rows = index.get_indexer(pd.MultiIndex.from_arrays(pairs))
            lacking = np.flatnonzero(rows < 0)
            if lacking.size:
                raise DataError(
                    f"{path} has no probability for {lacking.size} of {rows.size} pairs, the first in row {lacking[0]} "
                    f"of {self.name}. Score all pairs"
                )
            return np.asarray(probabilities[rows])
        if scored.num_rows != self.table.num_rows:
            raise DataError(
                f"{path} has {scored.num_rows:,} probabilities, {self.name} has {self.table.num_rows:,} pairs. Give "
                "one for each pair, in their order"
            )
        shared = [name for name in ORDERED if name in scored.column_names]
        for name in shared:
            if scored[name].to_pylist() != self.table[name].to_pylist():
                raise DataError(f"{path}: the column {name} differs from that of {self.name}; keep the pairs' order")
        if not {"caption_key", "hypothesis"}.intersection(shared):  # a wrong order would not be noticed
            expected = "ids of pairs in columns image_id and caption_id"
            refuse_misnamed(path, scored, ("probability", *shared), "image_id and caption_id", expected)
        return probabilities

    def ask(self, classifier: Classifier, images: str | Path | None) -> Asked:
        """The premises, image files and hypotheses, for ``Classifier.score``."""
        files = find_image_files(classifier, self.table["image"].to_pylist(), images)
        return self.table["premise"].to_pylist(), files, self.table["hypothesis"].to_pylist()


def find_labelled(name: str) -> Path | None:
    """The path of a file of labelled pairs, or None if the name is a part of the corpora; reads nothing."""
    path = Path(name)
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    if not suffixes or suffixes[-1] not in SUFFIXES:
        part_of(name)
        return None
    if not path.is_file():
        raise SourceMissing(
            f"{path} does not exist. Give a file of labelled pairs ({', '.join(SUFFIXES)}), or a part such as cxc/test"
        )
    return path


def read_labelled(name: str, library: Library, *, images: str | Path | None = None) -> LabelledPairs:
    """Labelled pairs of a file or of a part of the corpora; test data is allowed, since nothing is trained."""
    path = find_labelled(name)
    if path is None:
        data = load_training_data(library, [name], images=images, allow_test_data=True)
        (source,) = data.provenance["sources"].values()
        return LabelledPairs(name, data.pairs, source["left_out"])
    if path.suffix == ".parquet":
        return LabelledPairs(path.name, _read_pairs(path, library), {})
    pairs = pairs_of_labels(read_entailment(path))
    table = as_labelled("entailment", pairs.table)
    names = pc.binary_join_element_wise("image", table["image"], "/")
    table = table.set_column(7, "image_key", pc.coalesce(table["image_key"], names))
    return LabelledPairs(path.name, table, pairs.left_out)


def _read_pairs(path: Path, library: Library) -> pa.Table:
    table = read_table(path, "a table of labelled pairs")
    table = table.rename_columns(fold_names(path, table.column_names))
    names = set(table.column_names)
    if set(LABELS_SCHEMA.names) <= names:
        return _of_people(read_labels(path), library)
    if not {"hypothesis", "label"} <= names or not {"premise", "image"} & names:
        expected = "hypothesis, label, and premise or image among them"
        raise MalformedSource(path, "", f"the columns {', '.join(table.column_names)}", expected)
    for row, label in enumerate(table["label"].to_pylist()):
        if label not in (0, 1):
            raise MalformedSource(path, f"row {row}, label", shown(label), "1 (entailed) or 0")
    columns = []
    for field in LABELLED_SCHEMA:
        given = table[field.name] if field.name in names else pa.nulls(table.num_rows, field.type)
        try:
            columns.append(given.cast(field.type))
        except pa.ArrowException as error:
            raise MalformedSource(path, field.name, str(error).partition("\n")[0], str(field.type)) from None
    pairs = pa.table(columns, schema=LABELLED_SCHEMA)
    pairs = pairs.set_column(0, "premise", pc.fill_null(pairs["premise"], ""))
    asked = pc.and_(
        pc.is_valid(pairs["hypothesis"]), pc.or_(pc.not_equal(pairs["premise"], ""), pc.is_valid(pairs["image"]))
    )
    lacking = np.flatnonzero(~np.asarray(asked))
    if lacking.size:
        raise MalformedSource(
            path, f"row {lacking[0]}", "no hypothesis, or neither premise nor image", "a pair in every row"
        )
    if not pairs.num_rows:
        raise MalformedSource(path, "", "no labelled pair", "at least one")
    return pairs


def _of_people(labels: LabelFile, library: Library) -> pa.Table:
    library.check_labels(labels)
    content = library.split(labels.split)
    images, captions = (np.asarray(labels.table[name]) for name in ("image_id", "caption_id"))
    pairs = make_pairs(
        content.captions_of(images),
        content.texts_of(captions),
        labels.table["positive"],
        image=content.files_of(images),
        image_key=make_keys("coco", images),
        caption_key=make_keys("coco", captions),
    )
    return as_labelled(labels.name, pairs.table)


def find_image_files(
    classifier: Classifier, names: Sequence[str | None], folder: ImageFolder | str | Path | None
) -> list[Path | None] | None:
    """The path of every image name, None for no name; None as a whole for a classifier of texts alone."""
    if not classifier.has_visual:
        return None
    if folder is None:
        raise InvalidOption(f"{classifier.name} looks at images: give their folder (--images)")
    images = folder if isinstance(folder, ImageFolder) else ImageFolder(folder)
    paths = images.find_all(name for name in names if name is not None)
    return [None if name is None else paths[name] for name in names]


SEEN_FILE = "pairs_seen.parquet"

SEEN_SCHEMA = pa.schema([("pair", pa.int64()), ("trained", pa.bool_())])

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
    uses = [np.unique(hashes[known]) for hashes, known in map(_hash, (trained, held_out))]
    old = None if before is None else _seen_at(before)
    if old is not None:
        uses = [np.union1d(new, known) for new, known in zip(uses, (old.trained, old.held_out), strict=True)]
    seen = SeenPairs(uses[0], uses[1], before is None or (old is not None and old.complete))
    if is_first:
        flags = np.repeat([True, False], [seen.trained.size, seen.held_out.size])
        with replaced_file(folder / SEEN_FILE) as part:
            schema = SEEN_SCHEMA.with_metadata({COMPLETE: str(int(seen.complete))})
            write_parquet(pa.table([np.concatenate(uses), flags], schema=schema), part)
    return seen


def read_seen(path: Path) -> SeenPairs:
    """Read a file that :func:`record_seen` wrote."""
    table = read_table(path, "a table of hashes, as written by the trainer")
    if table.schema.remove_metadata() != SEEN_SCHEMA or any(column.null_count for column in table.columns):
        raise MalformedSource(path, "", f"columns {', '.join(table.column_names)}", "pair (int64) and trained (bool)")
    pairs, trained = (np.asarray(table[name]) for name in SEEN_SCHEMA.names)
    return SeenPairs(pairs[trained], pairs[~trained], (table.schema.metadata or {}).get(COMPLETE) == b"1")


def seen_by(classifier: Classifier) -> SeenPairs | None:
    """The pairs that a classifier has seen; None if it has no record."""
    return _seen_at(classifier.source, classifier.commit)


def _seen_at(source: str, revision: str | None = None) -> SeenPairs | None:
    from cxc_eccv.encoding.checkpoints import find_file  # needs torch

    path = find_file(source, SEEN_FILE, revision) if source else None
    return None if path is None else read_seen(path)


def _hash(pairs: pa.Table) -> tuple[IntArray, NDArray[np.bool_]]:
    """(N, 2) hashes of hypothesis with premise and with image, and (N, 2) whether there is a premise or an image.

    Of texts only letters and digits count, in lower case: a pair is recognised in another file, with or without image.
    """
    hypotheses = plain_texts(pairs["hypothesis"].combine_chunks()).to_pylist()
    premises = plain_texts(pairs["premise"].combine_chunks()).to_pylist()
    hashes = []
    known = []
    for premise, image, hypothesis in zip(premises, pairs["image_key"].to_pylist(), hypotheses, strict=True):
        hashes.append((_number("premise", premise or None, hypothesis), _number("image", image, hypothesis)))
        known.append((bool(premise), image is not None))
    return np.array(hashes, dtype=np.int64).reshape(-1, 2), np.array(known, dtype=bool).reshape(-1, 2)


def _number(what: str, side: str | None, hypothesis: str) -> int:
    digest = blake2b(f"{what}\0{side}\0{hypothesis}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
