"""Parquet files with an (image, caption) pair per row: labels by people, and mined weak positives.

The metadata of a file says who made the pairs, by which rule, and from which data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DownloadFailed, MalformedSource, SourceMissing
from cxc_eccv.parquet import write_parquet
from cxc_eccv.sources.catalog import SPLITS
from cxc_eccv.sources.reading import first_repeated_pair, parse_metadata, read_table, shown
from cxc_eccv.types import CROSS_MODAL, IntArray
from cxc_eccv.writing import replaced_file


def _whole_rows(**types: pa.DataType) -> pa.Schema:
    """A schema of columns without nulls."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


LABELS_SCHEMA = _whole_rows(
    image_id=pa.int64(), caption_id=pa.int64(), gain=pa.float64(), positive=pa.bool_(), answers=pa.int32()
)
"""``gain`` is in [0, 1], above 0 if ``positive`` and below 1 otherwise; ``answers`` is the number of people."""

DRAWN = pa.field("drawn", pa.float64())
"""The probability with which a pair was drawn to be asked about; null for a chosen one. Files may lack the column."""

MINED_SCHEMA = _whole_rows(
    image_id=pa.int64(),
    caption_id=pa.int64(),
    score=pa.float32(),
    rank=pa.int32(),
    **dict.fromkeys(("classifier", "retriever", "rule"), pa.dictionary(pa.int32(), pa.string())),
)
"""``score`` is the probability of entailment under the rule; ``rank``, from 1, counts only captions of other images."""

LABELS_FACTS = MINED_FACTS = b"cxc_eccv"  # metadata key of the facts, in JSON

LABELS_FORMAT = MINED_FORMAT = 1

LABEL_FACTS: Mapping[str, type] = {
    "schema": int,
    **dict.fromkeys(("kind", "name", "version", "collection", "split", "rule", "scheme"), str),
    "people": int,
    "models": list,
    "searched": dict,
    "data": dict,
}
"""``searched`` has, for i2t and t2i, the ids of the queries for which people judged what models ranked highest."""

CONSTANT: Mapping[str, Any] = {"schema": LABELS_FORMAT, "kind": "labels", "collection": "coco"}
"""Facts that are equal in every file of labels; the writer adds them."""

TERMS = {"licence": str, "citation": str}  # facts that a file of labels may lack

SUMMARIZED = ("version", "scheme", "rule", "people", "licence")

PAIR_FACTS: Mapping[str, type] = {
    "schema": int,
    **dict.fromkeys(("collection", "split"), str),
    **dict.fromkeys(("classifier", "retriever", "rule", "data"), dict),
}

COLLECTIONS = ("coco", "flickr30k")

NAME = re.compile(r"[a-z][a-z0-9_]*")

REPOSITORY = re.compile(r"(?P<id>[\w.-]+/[\w.-]+?)(@(?P<revision>[\w./-]+))?", re.ASCII)

ENDING = ".parquet"


@dataclass(frozen=True, slots=True, eq=False)
class LabelFile:
    """Pairs of one split, each once: a table of ``LABELS_SCHEMA``, and the facts of the file."""

    path: Path
    table: pa.Table
    facts: Mapping[str, Any]  # of LABEL_FACTS and TERMS; data["content"] is the fingerprint of the split
    origin: Mapping[str, str] = field(default_factory=dict)  # on the Hub: repository, revision

    @property
    def name(self) -> str:
        """Of the source of labels."""
        return str(self.facts["name"])

    @property
    def split(self) -> str:
        """The split of the images and captions."""
        return str(self.facts["split"])

    def searched(self, direction: str) -> IntArray:
        """Ids of the queries for which people judged what models ranked highest, ascending."""
        return np.array(self.facts["searched"].get(direction, ()), dtype=np.int64)

    @property
    def summary(self) -> dict[str, Any]:
        """Facts for reports and manifests: people, rule, terms, and the repository on the Hub."""
        facts = {name: self.facts[name] for name in SUMMARIZED if name in self.facts}
        counts = {"pairs": self.table.num_rows, "positive": int(np.count_nonzero(self.table["positive"]))}
        return {**facts, **counts, **self.origin}


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


def write_labels(path: Path, table: pa.Table, facts: Mapping[str, Any]) -> LabelFile:
    """Write a label file in one step; refuse labels that :func:`read_labels` would refuse."""
    labels = _check_labels(path, table, {**facts, **CONSTANT})
    metadata = {LABELS_FACTS: json.dumps(labels.facts, ensure_ascii=False)}
    with replaced_file(path) as part:
        write_parquet(table.replace_schema_metadata(metadata), part)
    return labels


def read_labels(path: Path) -> LabelFile:
    """The labels in a Parquet file that ``cxc-eccv annotate merge`` wrote."""
    return _check_labels(path, *_read(path, LABELS_FACTS, "labels", "cxc-eccv annotate merge"))


def _read(path: Path, key: bytes, what: str, writer: str) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the facts of a file that the command ``writer`` wrote."""
    if not path.is_file():
        raise SourceMissing(f"{path}: there is no such file of {what}. {writer} writes such files.")
    table = read_table(path, f"{what}, as {writer} writes them")
    return table, parse_metadata(path, table, key, f"the facts that {writer} writes")


def read_mined(path: Path) -> MinedPairs:
    """The weak positives in a Parquet file that ``cxc-eccv mine`` wrote."""
    table, facts = _read(path, MINED_FACTS, "weak positives", "cxc-eccv mine")
    _check_kinds(path, facts, PAIR_FACTS)
    _check_facts(
        path,
        facts,
        {
            "schema": (facts["schema"] == MINED_FORMAT, f"{MINED_FORMAT}, which this version reads"),
            "collection": (facts["collection"] in COLLECTIONS, " or ".join(COLLECTIONS)),
            "split": (facts["split"] in SPLITS, f"one of {', '.join(SPLITS)}"),
        },
    )
    table = _check_columns(path, table, MINED_SCHEMA)
    scores, ranks = np.asarray(table["score"]), np.asarray(table["rank"])
    wrong = {
        "a number in [0, 1]": ("score", ~((scores >= 0) & (scores <= 1))),
        "a rank of at least 1": ("rank", ranks < 1),
    }
    _check_rows(path, table, wrong)
    return MinedPairs(table, facts)


def _check_labels(path: Path, table: pa.Table, facts: Mapping[str, Any]) -> LabelFile:
    _check_kinds(path, facts, {**LABEL_FACTS, **{name: kind for name, kind in TERMS.items() if name in facts}})
    expected = {
        **{name: (facts[name] == value, repr(value)) for name, value in CONSTANT.items()},
        "name": (NAME.fullmatch(facts["name"]), "a name of lower-case letters, digits and _ that begins with a letter"),
        "version": (facts["version"].strip(), "a version such as 1.0.0"),
        "split": (facts["split"] in SPLITS, f"one of {', '.join(SPLITS)}"),
        "people": (facts["people"] > 0, "a number of people, at least 1"),
        "searched": (_are_ids(facts["searched"]), "an object of directions with whole numbers, ascending"),
        "data": (isinstance(facts["data"].get("content"), str), "an entry content with the fingerprint of the split"),
    }
    _check_facts(path, facts, expected)
    drawn = table["drawn"] if "drawn" in table.column_names else None
    if drawn is not None and drawn.type != DRAWN.type:
        raise MalformedSource(path, "drawn", str(drawn.type), str(DRAWN.type))
    table = _check_columns(path, table, LABELS_SCHEMA).cast(LABELS_SCHEMA)
    if not table.num_rows:
        raise MalformedSource(path, "", "no row", "at least one labelled pair")
    gains, positive, answers = (np.asarray(table[name]) for name in ("gain", "positive", "answers"))
    wrong = {
        "a number in [0, 1]": ("gain", ~((gains >= 0) & (gains <= 1))),
        "a gain above 0 if positive is true": ("gain", positive & (gains == 0)),
        "a gain below 1 if positive is false": ("gain", ~positive & (gains == 1)),
        "a number of people, at least 1": ("answers", answers < 1),
    }
    if drawn is not None:
        table = table.append_column(DRAWN, drawn)
        chances = np.asarray(drawn.fill_null(1.0))
        wrong["a probability above 0 and at most 1"] = "drawn", ~((chances > 0) & (chances <= 1))
    _check_rows(path, table, wrong)
    return LabelFile(path, table, facts)


def _are_ids(searched: Mapping[str, Any]) -> bool:
    return set(searched) <= set(CROSS_MODAL) and all(
        isinstance(ids, list) and all(type(number) is int for number in ids) and ids == sorted(set(ids))
        for ids in searched.values()
    )


def _check_kinds(path: Path, facts: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    for name, kind in kinds.items():
        value = facts.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise MalformedSource(path, f"metadata, {name}", shown(value), f"a value of kind {kind.__name__}")


def _check_facts(path: Path, facts: Mapping[str, Any], expected: Mapping[str, tuple[object, str]]) -> None:
    """Refuse the first wrong fact; ``expected`` has for each whether it is right, and what is expected."""
    for name, (holds, what) in expected.items():
        if not holds:
            raise MalformedSource(path, f"metadata, {name}", shown(facts[name]), what)


def _check_columns(path: Path, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema; refuse missing columns, other types and nulls."""
    for column in schema:
        if column.name not in table.column_names or table.schema.field(column.name).type != column.type:
            actual = f"columns {', '.join(f'{field.name} {field.type}' for field in table.schema)}"
            raise MalformedSource(path, "", actual, f"{column.name} {column.type}")
        if table[column.name].null_count:
            raise MalformedSource(path, column.name, f"{table[column.name].null_count} nulls", "a value in every row")
    return table.select(schema.names)


def _check_rows(path: Path, table: pa.Table, wrong: Mapping[str, tuple[str, NDArray[np.bool_]]]) -> None:
    """Refuse the first wrong row, or a repeated pair; ``wrong`` has the column and the bad rows of each expectation."""
    for expected, (column, flags) in wrong.items():
        if flags.any():
            row = int(np.argmax(flags))
            raise MalformedSource(path, f"row {row}", f"{column} {table[column][row].as_py()}", expected)
    twice = first_repeated_pair(*(np.asarray(table[name]) for name in ("image_id", "caption_id")))
    if twice is not None:
        actual = f"caption_id {table['caption_id'][twice].as_py()}"
        raise MalformedSource(path, f"row {twice}", actual, "every pair of image_id and caption_id once")


def find_label_files(named: str | Path, *, offline: str = "") -> list[LabelFile]:
    """Label files of one place: a file, the files of a folder, or a dataset on the Hub (``user/name@revision``).

    Subfolders are not searched, so the folder may be an annotation project. ``offline`` is the reason why downloads are
    off; a dataset is then taken from the cache of huggingface_hub.
    """
    path = Path(named).expanduser()
    if path.is_dir():
        return _read_folder(path, str(named))
    repository = REPOSITORY.fullmatch(str(named))
    if path.exists() or repository is None or path.suffix == ENDING:
        return [read_labels(path)]
    folder = _download(repository["id"], repository["revision"], offline)
    origin = {"repository": repository["id"], "revision": folder.name}
    return [replace(file, origin=origin) for file in _read_folder(folder, f"the dataset {named} on the Hub")]


def _read_folder(folder: Path, place: str) -> list[LabelFile]:
    files = sorted(folder.glob(f"*{ENDING}"))
    if not files:
        raise SourceMissing(f"{place} holds no label file (*{ENDING}). cxc-eccv annotate merge writes label files.")
    return [read_labels(path) for path in files]


def _download(repository: str, revision: str | None, offline: str) -> Path:
    """The folder of a commit of a dataset in the cache of huggingface_hub; it is named after the commit."""
    from huggingface_hub import errors, snapshot_download

    name = f"{repository}@{revision}" if revision else repository
    try:
        folder = snapshot_download(
            repository,
            repo_type="dataset",
            revision=revision,
            allow_patterns=f"*{ENDING}",
            ignore_patterns="*/*",
            local_files_only=bool(offline),
            library_name="cxc_eccv",
        )
    except errors.LocalEntryNotFoundError:
        why = f"downloads are off ({offline})" if offline else "the Hugging Face Hub does not answer"
        raise SourceMissing(
            f"labels {name}: there is no such file or folder, no such dataset is in the cache, and {why}. Check the "
            "path, or allow downloads once; the dataset is then cached."
        ) from None
    except errors.RepositoryNotFoundError:
        raise SourceMissing(
            f"labels {name}: there is no such file or folder, and no such dataset on the Hugging Face Hub that you may "
            "see. Check the name; for a private dataset, run `hf auth login` or set HF_TOKEN."
        ) from None
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise DownloadFailed(f"labels {name}: the Hugging Face Hub did not deliver them: {reason}") from None
    return Path(folder)
