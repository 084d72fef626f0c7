"""Files of pairs of images and captions: labels by people, plain tables of users, and mined weak positives.

The Parquet files have facts in their metadata, which say who made the pairs, by which rule, and from which data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DownloadFailed, MalformedSource, SourceMissing, refuse_long_name
from cxc_eccv.parquet import write_parquet
from cxc_eccv.sources.catalog import SPLITS
from cxc_eccv.sources.columns import (
    LABEL,
    PROBABILITY,
    TABLE_ENDINGS,
    WHOLE_NUMBER,
    find_ending,
    name_row,
    read_columns,
    refuse_misnamed,
)
from cxc_eccv.sources.readers.crowd_answers import has_crowd_answers, read_crowd_answers
from cxc_eccv.sources.readers.eccv_caption import UNREACHABLE_CAPTIONS
from cxc_eccv.sources.reading import check_content, first_repeated_pair, parse_metadata, read_table, shown
from cxc_eccv.types import CROSS_MODAL, IntArray, find_positions
from cxc_eccv.types.provenance import LabelFileFacts
from cxc_eccv.types.strict_json import MAPPING, TEXT, Kind, Loose, Shape
from cxc_eccv.writing import replaced_file


def without_nulls(types: Mapping[str, pa.DataType]) -> pa.Schema:
    """A schema of columns without nulls."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


REPEATED_TEXT = pa.dictionary(pa.int32(), pa.string())

MINED_SCHEMA = without_nulls(
    {
        "image_id": pa.int64(),
        "caption_id": pa.int64(),
        "score": pa.float32(),
        "rank": pa.int32(),
        "classifier": REPEATED_TEXT,
        "retriever": REPEATED_TEXT,
        "rule": REPEATED_TEXT,
    }
)
"""``score`` is the probability of entailment under the rule; ``rank``, from 1, counts only captions of other images."""

FACTS_KEY = b"cxc_eccv"
"""Metadata key of the facts, in JSON."""

IS_FORMAT = Kind(lambda value: type(value) is int and value == 1, "1, which this version reads")
IS_SPLIT = Kind(lambda value: value in SPLITS, f"one of {', '.join(SPLITS)}")

MINED_FACTS = {
    "schema": IS_FORMAT,
    "collection": Kind(lambda value: value in ("coco", "flickr30k"), "coco or flickr30k"),
    "split": IS_SPLIT,
    **dict.fromkeys(("classifier", "retriever", "rule", "data"), MAPPING),
}


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
    check_content(path, facts, MINED_FACTS, "metadata")
    table = check_columns(path, table, MINED_SCHEMA)
    scores = np.asarray(table["score"])
    ranks = np.asarray(table["rank"])
    wrong = {
        "a number in [0, 1]": ("score", ~((scores >= 0) & (scores <= 1))),
        "a rank of at least 1": ("rank", ranks < 1),
    }
    check_rows(path, table, wrong)
    return MinedPairs(table, facts)


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


LABELS_SCHEMA = without_nulls(
    {
        "image_id": pa.int64(),
        "caption_id": pa.int64(),
        "gain": pa.float64(),
        "positive": pa.bool_(),
        "answers": pa.int32(),
    }
)
"""``gain`` is in [0, 1], above 0 if ``positive`` and below 1 otherwise; ``answers`` is the number of people."""

DRAWN_FIELD = pa.field("drawn", pa.float64())
"""The probability with which a pair was drawn to be asked about; null for a chosen one. Files may lack the column."""

PLAIN_SCHEMA = pa.schema([LABELS_SCHEMA.field(name) for name in ("image_id", "caption_id", "gain", "positive")])
"""The columns of a plain table: nobody knows how many people answered."""

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]*")

CONSTANT_FACTS: Mapping[str, Any] = {"schema": 1, "kind": "labels", "collection": "coco"}
"""Facts that are equal in every file of labels; the writer adds them."""

LABEL_FACTS: Mapping[str, Shape] = {
    "schema": IS_FORMAT,
    "kind": Kind(lambda value: value == "labels", "'labels'"),
    "name": Kind(
        lambda value: isinstance(value, str) and NAME_PATTERN.fullmatch(value) is not None,
        "a name of lower-case letters, digits and _ that begins with a letter",
    ),
    "version": Kind(lambda value: isinstance(value, str) and bool(value.strip()), "a version such as 1.0.0"),
    "collection": Kind(lambda value: value == "coco", "'coco'"),
    "split": IS_SPLIT,
    **dict.fromkeys(("rule", "scheme"), TEXT),
    "people": Kind(lambda value: type(value) is int and value > 0, "a number of people, at least 1"),
    "models": Kind(lambda value: isinstance(value, list), "a list"),
    "searched": Kind(lambda value: _are_ids(value), "an object of directions with whole numbers, ascending"),
    "data": {"content": Kind(lambda value: isinstance(value, str), "the fingerprint of the split")},
}
"""``searched`` has, for i2t and t2i, the ids of the queries for which people judged what models ranked highest."""

TERM_NAMES = ("licence", "citation")  # texts that the facts may lack

SUMMARIZED = ("version", "scheme", "rule", "people", "licence")


@dataclass(frozen=True, slots=True, eq=False)
class LabelFile:
    """Labelled pairs of one split, each once: a table of ``LABELS_SCHEMA``, or of its ``PLAIN_SCHEMA``."""

    path: Path
    name: str  # of the source of labels
    split: str
    table: pa.Table
    facts: Mapping[str, Any] = field(default_factory=dict)  # of LABEL_FACTS and TERMS; none for a plain table
    origin: Mapping[str, str] = field(default_factory=dict)  # on the Hub: repository, revision
    note: str = ""  # the rule of ECCV Caption's raw answers, which are plain too

    @property
    def is_plain(self) -> bool:
        """Whether it is a table of pairs alone, of which nobody said who judged them and what was searched."""
        return not self.facts

    @property
    def rule(self) -> str:
        """How people's answers became labels, and the version; empty for a table that does not say so."""
        return self.note if self.is_plain else f"{self.facts['rule']}, {self.facts['version']}"

    def searched(self, direction: str) -> IntArray:
        """Ids of the queries for which people judged what models ranked highest, ascending."""
        return np.array(self.facts.get("searched", {}).get(direction, ()), dtype=np.int64)

    @property
    def summary(self) -> LabelFileFacts:
        """Facts for reports and manifests: people, rule, terms, and the repository on the Hub."""
        facts = {name: self.facts[name] for name in SUMMARIZED if name in self.facts}
        facts |= {"rule": self.note} if self.note else {}
        positive = int(np.count_nonzero(self.table["positive"]))
        return LabelFileFacts(**facts | dict(self.origin), pairs=self.table.num_rows, positive=positive)


def write_labels(path: Path, table: pa.Table, facts: Mapping[str, Any]) -> LabelFile:
    """Write a label file in one step; refuse labels that :func:`read_labels` would refuse."""
    labels = _check_labels(path, table, {**facts, **CONSTANT_FACTS})
    metadata = {FACTS_KEY: json.dumps(labels.facts, ensure_ascii=False)}
    with replaced_file(path) as part:
        write_parquet(table.replace_schema_metadata(metadata), part)
    return labels


def read_labels(path: Path) -> LabelFile:
    """The labels in a Parquet file that ``cxc-eccv annotate merge`` wrote."""
    return _check_labels(path, *read_pairs(path, "labels", "cxc-eccv annotate merge"))


def _check_labels(path: Path, table: pa.Table, facts: Mapping[str, Any]) -> LabelFile:
    shape = Loose({**LABEL_FACTS, **dict.fromkeys(TERM_NAMES, TEXT)}, frozenset(LABEL_FACTS))
    check_content(path, facts, shape, "metadata")
    drawn = table["drawn"] if "drawn" in table.column_names else None
    if drawn is not None and drawn.type != DRAWN_FIELD.type:
        raise MalformedSource(path, "drawn", str(drawn.type), str(DRAWN_FIELD.type))
    table = check_columns(path, table, LABELS_SCHEMA).cast(LABELS_SCHEMA)
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
        table = table.append_column(DRAWN_FIELD, drawn)
        chances = np.asarray(drawn.fill_null(1.0))
        wrong["a probability above 0 and at most 1"] = "drawn", ~((chances > 0) & (chances <= 1))
    check_rows(path, table, wrong)
    return LabelFile(path, facts["name"], facts["split"], table, facts)


def _are_ids(searched: object) -> bool:
    if not isinstance(searched, dict) or not set(searched) <= set(CROSS_MODAL):
        return False
    return all(map(_are_ascending_ids, searched.values()))


def _are_ascending_ids(ids: object) -> bool:
    if not isinstance(ids, list) or not all(type(number) is int for number in ids):
        return False
    return ids == sorted(set(ids))


IdsOfSplits = Mapping[str, tuple[IntArray, IntArray]]
"""Split to its image ids and caption ids."""

NO_IDS = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

FORMS = {"image_id": WHOLE_NUMBER, "caption_id": WHOLE_NUMBER, "positive": LABEL, "gain": PROBABILITY}


def read_label_files(path: Path, read_ids: Callable[[], IdsOfSplits]) -> list[LabelFile]:
    """The labels in a file that ``cxc-eccv annotate merge`` wrote, or in a plain table: one for each split.

    Args:
        path: file that ends in one of :data:`cxc_eccv.sources.columns.TABLES`.
        read_ids: reads the ids of the splits, for a plain table.
    """
    if not path.is_file():
        raise SourceMissing(
            f"{path}: there is no such file of labels. Give a table of image_id and caption_id "
            f"({', '.join(TABLE_ENDINGS)}), or what cxc-eccv annotate merge writes."
        )
    if find_ending(path) == ".parquet" and FACTS_KEY in (read_table(path, "a table of labels").schema.metadata or {}):
        return [read_labels(path)]
    name = _name_labels(path)
    if find_ending(path) == ".csv" and has_crowd_answers(path):
        return [_read_crowd(path, name, *read_ids().get("test", NO_IDS))]
    return _read_plain(path, name, read_ids)


def _name_labels(path: Path) -> str:
    """The name of the file without its ending; refuse one that is no name of labels."""
    name = Path(path.name.removesuffix(".gz")).stem
    if not NAME_PATTERN.fullmatch(name):
        expected = "lower-case letters, digits and _, as labels have the name of their file"
        raise MalformedSource(path, "its name", shown(name), expected)
    return name


def _read_crowd(path: Path, name: str, image_ids: IntArray, caption_ids: IntArray) -> LabelFile:
    """ECCV Caption's raw answers, each pair once: a match if any of its rows says so, as its authors' reader has it."""
    answers = read_crowd_answers(path)
    inside = ~np.isin(answers.captions, UNREACHABLE_CAPTIONS)
    for column, ids, known in (("iid", answers.images, image_ids), ("cid", answers.captions, caption_ids)):
        unknown = np.flatnonzero(inside & ~find_positions(ids, known)[1])
        if unknown.size:
            place = f"line {answers.lines[unknown[0]]}, column {column!r}"
            expected = "an id of COCO's test split"
            raise MalformedSource(path, place, f"id {ids[unknown[0]]}", f"{expected}; leave the row out")
    pairs, occurrence = np.unique(
        np.stack([answers.images[inside], answers.captions[inside]]), axis=1, return_inverse=True
    )
    gains = np.zeros(pairs.shape[1])
    np.maximum.at(gains, occurrence.ravel(), answers.gains[inside])
    table = pa.table([*pairs, gains, gains > 0], schema=PLAIN_SCHEMA)
    note = (
        "ECCV Caption's crowd said 100% YES or partially YES; left out: rows without whole ids: "
        f"{answers.n_left_out:,} of {answers.lines.size + answers.n_left_out:,}, "
        f"rows of captions outside the split: {np.count_nonzero(~inside):,}"
    )
    return LabelFile(path, name, "test", table, note=note)


def _read_plain(path: Path, name: str, read_ids: Callable[[], IdsOfSplits]) -> list[LabelFile]:
    table = read_columns(path, "labels", FORMS, "image_id", "caption_id")
    if not table.num_rows:
        raise MalformedSource(path, "", "no row", "at least one labelled pair")
    images, captions = (np.asarray(table[name], dtype=np.int64) for name in ("image_id", "caption_id"))
    twice = first_repeated_pair(images, captions)
    if twice is not None:
        actual = f"image {images[twice]} with caption {captions[twice]} again"
        raise MalformedSource(path, name_row(path, twice), actual, "every pair of image_id and caption_id once")
    gains, positive = _read_verdicts(path, table)
    whole = pa.table([images, captions, gains, positive], schema=PLAIN_SCHEMA)
    by_split = _find_splits(path, images, captions, read_ids())
    return [LabelFile(path, name, split, whole.filter(rows)) for split, rows in by_split.items()]


def _read_verdicts(path: Path, table: pa.Table) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(P,) gains and (P,) whether pairs are positive: without ``positive`` those with a gain above 0, else all."""
    columns = {name: np.asarray(table[name]) for name in ("positive", "gain") if name in table.column_names}
    if not columns:
        expected = "verdicts in a column positive (1 or 0) or gain (0 to 1)"
        refuse_misnamed(path, table, FORMS, "positive or gain", expected)
    gains = columns.get("gain", columns.get("positive", np.ones(len(table)))).astype(np.float64)
    positive = columns.get("positive", gains > 0).astype(bool)
    wrong = np.flatnonzero(gains == np.where(positive, 0, 1))
    if wrong.size:
        verdict = bool(positive[wrong[0]])
        expected = f"a gain {'above 0' if verdict else 'below 1'} where positive is {str(verdict).lower()}"
        raise MalformedSource(path, name_row(path, wrong[0]), f"gain {gains[wrong[0]]:g}", expected)
    return gains, positive


def _find_splits(path: Path, images: IntArray, captions: IntArray, ids: IdsOfSplits) -> dict[str, NDArray[np.bool_]]:
    """Split to whether the pairs are of it; raises MalformedSource for the first unknown id or pair of two splits."""
    _refuse_swapped(path, images, captions, ids)
    expected = f"one of the splits {', '.join(ids)}; leave the row out, or name the data that it is of (--data-dir)"
    homes = []
    for column, values in (("image_id", images), ("caption_id", captions)):
        known = [content[column == "caption_id"] for content in ids.values()]
        positions, is_known = find_positions(values, np.concatenate(known))
        if not is_known.all():
            row = int(np.argmin(is_known))
            place = f"{name_row(path, row)}, column {column!r}"
            raise MalformedSource(path, place, f"id {values[row]}", expected)
        homes.append(np.repeat(np.arange(len(known)), [array.size for array in known])[positions])
    apart = np.flatnonzero(homes[0] != homes[1])
    names = list(ids)
    if apart.size:
        row = int(apart[0])
        actual = f"an image of {names[homes[0][row]]} and a caption of {names[homes[1][row]]}"
        raise MalformedSource(path, name_row(path, row), actual, "pairs within one split; leave the row out")
    return {name: homes[0] == number for number, name in enumerate(names) if (homes[0] == number).any()}


SWAPPED_SHARE = 0.9
"""Columns are swapped if this share of each has ids of the other; single ids are by chance those of both."""


def _refuse_swapped(path: Path, images: IntArray, captions: IntArray, ids: IdsOfSplits) -> None:
    """Refuse image ids that are caption ids, with caption ids that are image ids."""
    image_ids = np.concatenate([known for known, _ in ids.values()])
    caption_ids = np.concatenate([known for _, known in ids.values()])
    unknown = np.flatnonzero(~find_positions(images, image_ids)[1])
    if not unknown.size:
        return
    is_caption = find_positions(images, caption_ids)[1]
    is_image = find_positions(captions, image_ids)[1]
    row = int(unknown[0])
    if is_caption[row] and min(is_caption.mean(), is_image.mean()) >= SWAPPED_SHARE:
        raise MalformedSource(
            path,
            f"{name_row(path, row)}, column 'image_id'",
            f"id {images[row]}, which is a caption id",
            f"an image id of the splits {', '.join(ids)}: are the columns swapped?",
        )


REPOSITORY = re.compile(r"(?P<id>[\w.-]+/[\w.-]+?)(@(?P<revision>[\w./-]+))?", re.ASCII)


def find_labels(named: str | Path, *, offline: str = "") -> tuple[list[Path], Mapping[str, str]]:
    """Paths of the label files of one place, and repository and revision if it is on the Hub.

    Args:
        named: a file, a folder, or a dataset on the Hub (``user/name`` or ``user/name@revision``). The Parquet files of
            a folder count, and only without any its other tables: it may be an annotation project. Subfolders are not
            searched.
        offline: reason why downloads are off; a dataset is then taken from the cache of huggingface_hub.
    """
    path = Path(named).expanduser()
    refuse_long_name(path)
    if path.is_dir():
        return _list_files(path, str(named)), {}
    repository = REPOSITORY.fullmatch(str(named))
    if path.exists() or repository is None or find_ending(path) in TABLE_ENDINGS:
        return [path], {}
    folder = _download(repository["id"], repository["revision"], offline)
    origin = {"repository": repository["id"], "revision": folder.name}
    return _list_files(folder, f"the dataset {named} on the Hub"), origin


def _list_files(folder: Path, place: str) -> list[Path]:
    paths = sorted(folder.glob("*.parquet")) or sorted(
        path for path in folder.glob("*") if find_ending(path) in TABLE_ENDINGS
    )
    if not paths:
        raise SourceMissing(
            f"{place} holds no label file ({', '.join(TABLE_ENDINGS)}). Give a table of image_id and caption_id, or "
            "what cxc-eccv annotate merge writes."
        )
    return paths


def _download(repository: str, revision: str | None, offline: str) -> Path:
    """The folder of a commit of a dataset in the cache of huggingface_hub; it is named after the commit."""
    from huggingface_hub import errors, snapshot_download

    name = f"{repository}@{revision}" if revision else repository
    try:
        folder = snapshot_download(
            repository,
            repo_type="dataset",
            revision=revision,
            allow_patterns=[f"*{ending}" for ending in TABLE_ENDINGS],
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
