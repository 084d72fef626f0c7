"""What a build writes: Parquet shards of one row group, ``manifest.json``, and the summary of both."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cxc_eccv import version
from cxc_eccv.builders.dataset_config import BuildOptions, DatasetConfig
from cxc_eccv.builders.statistics import Statistics
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.hashing import hash_file
from cxc_eccv.sources.catalog import OFFICIAL, describe_data, fingerprint_files, load_catalog
from cxc_eccv.sources.library import Library
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import DataFacts, ModifiedFile
from cxc_eccv.types.strict_json import JsonObject
from cxc_eccv.writing import refuse_foreign


@dataclass(frozen=True, slots=True)
class BuildOrigin:
    """The data that something was built from."""

    edition: str
    data_version: str  # of the catalog
    package_version: str
    fingerprint: str  # over the sources
    sources: Mapping[str, str]  # catalog name to sha256 of every raw file read
    modified: Mapping[str, ModifiedFile]
    labels: Mapping[str, JsonObject] = field(default_factory=dict)  # facts of label files


@dataclass(frozen=True, slots=True)
class Shards:
    """The files of one config and split, with sizes on disk and hashes; ``num_bytes`` is the size in memory."""

    files: tuple[str, ...]
    num_rows: int
    num_bytes: int
    sizes: tuple[int, ...]
    sha256: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """One config and split of a build; with embedded images, ``features`` include the image column."""

    config: DatasetConfig
    split: str
    features: datasets.Features
    shards: Shards
    statistics: Statistics
    images_found: int = 0
    images_missing: int = 0


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """A config and split that was not built; ``missing`` is the whole error of a missing raw file, or empty."""

    config: str
    split: str
    reason: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """Everything that a build wrote, by config and split in the order of the card, and what it left out."""

    output: Path
    options: BuildOptions
    provenance: BuildOrigin
    splits: tuple[SplitSummary, ...]
    not_built: tuple[NotBuilt, ...]
    notes: tuple[str, ...] = ()  # what to know before using the folder

    def __str__(self) -> str:
        """A summary of several lines for people."""
        data = DataFacts(edition=self.provenance.edition, modified=self.provenance.modified)
        lines = [f"{self.output}: {describe_data(data)}; data version {self.provenance.data_version}"]
        lines += [
            f"  modified data: {name} has sha256 {hashes.found}, expected {hashes.expected}"
            for name, hashes in self.provenance.modified.items()
        ]
        for part in self.splits:
            images = part.images_found + part.images_missing
            embedded = f", {part.images_found:,} of {images:,} images" if images else ""
            lines.append(f"  {part.config.name}/{part.split}: {part.shards.num_rows:,} rows{embedded}")
        lines += [f"  left out of {'/'.join(place)}: {rule}: {n:,}" for (*place, rule), n in self.left_out.items()]
        lines += [
            f"  kept and flagged in {'/'.join(place)}: conflicting sources: {n:,}"
            for place, n in self.conflicts.items()
        ]
        reasons: dict[str, list[str]] = {}
        for skipped in self.not_built:
            reasons.setdefault(skipped.reason, []).append(f"{skipped.config}/{skipped.split}")
        lines += [f"  not built ({reason}): {', '.join(names)}" for reason, names in reasons.items()]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    @property
    def configs(self) -> dict[str, list[SplitSummary]]:
        """Config names to their splits."""
        configs: dict[str, list[SplitSummary]] = {}
        for part in self.splits:
            configs.setdefault(part.config.name, []).append(part)
        return configs

    @property
    def conflicts(self) -> dict[tuple[str, str], int]:
        """(config, split) to the number of judgments on which sources contradict each other; the rows contain them."""
        counts: Counter[tuple[str, str]] = Counter()
        for part in self.splits:
            for group in part.statistics["groups"].values():
                for name, column in group["columns"].items():
                    if name.rpartition(".")[2] == "conflict":
                        counts[part.config.name, part.split] += column["true"]
        return dict(+counts)

    @property
    def left_out(self) -> dict[tuple[str, str, str], int]:
        """(config, split, rule) to the number left out, including images that were not found."""
        counts: dict[tuple[str, str, str], int] = {}
        for part in self.splits:
            place = (part.config.name, part.split)
            counts |= {(*place, rule): number for rule, number in part.statistics["left_out"].items()}
            if part.images_missing:
                counts[(*place, "images not found, null in the rows")] = part.images_missing
        return counts


SHARD_BYTES = 100_000_000
"""Most bytes of a file, uncompressed: the size of the row groups that ``datasets`` writes.

A file has one row group: a process that streams a few rows and ends, while Arrow's threads read further groups, aborts
with "terminate called without an active exception" (apache/arrow#45214, huggingface/datasets#7467).
"""


def portable_schema(features: datasets.Features) -> pa.Schema:
    """The Arrow schema of ``features`` with lists as ``[feature]``, since ``datasets`` before 4.0 has no ``List``."""
    described = {"info": {"features": _plain_lists(features.to_dict())}}
    schema: pa.Schema = features.arrow_schema.with_metadata({"huggingface": json.dumps(described)})
    return schema


def conform(table: pa.Table, features: datasets.Features, name: str) -> pa.Table:
    """``table`` in one chunk, with exactly the columns and types of ``features``; errors use ``name``."""
    if table.column_names != list(features):
        raise DataError(f"{name}: the rows have the columns {table.column_names}, the features {list(features)}")
    for column, feature in features.items():
        if isinstance(feature, datasets.ClassLabel) and pa.types.is_string(table.schema.field(column).type):
            codes = _label_codes(table[column], feature.names, f"{name}, column {column!r}")
            table = table.set_column(table.column_names.index(column), column, codes)
    try:
        # One chunk per column, so that the file does not depend on how the rows were made.
        return table.cast(portable_schema(features)).combine_chunks()
    except pa.ArrowInvalid as error:
        raise DataError(f"{name}: the rows do not fit the features: {error}") from None


def _label_codes(column: pa.ChunkedArray, names: list[str], place: str) -> pa.ChunkedArray:
    codes = pc.index_in(column, value_set=pa.array(names, pa.string()))
    unknown = pc.unique(column.filter(pc.is_null(codes))).drop_null().to_pylist()
    if unknown:
        raise DataError(f"{place}: {unknown[0]!r} is not one of its labels, {', '.join(names)}")
    return codes


def row_groups(table: pa.Table) -> Iterator[pa.Table]:
    """Slices of about 100 MB at most."""
    rows = max(1, SHARD_BYTES * table.num_rows // max(1, table.nbytes))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def write_shards(tables: Iterable[pa.Table], folder: Path, split: str, shard_bytes: int = SHARD_BYTES) -> Shards:
    """Write files ``<split>-00000-of-0000N.parquet`` of one row group, each of at most ``shard_bytes`` uncompressed."""
    parts: list[Path] = []
    num_rows = num_bytes = 0
    for group in _join(tables, shard_bytes):
        parts.append(folder / f"{split}-{len(parts):05d}.part")
        with pq.ParquetWriter(parts[-1], group.schema, compression="zstd", write_page_checksum=True) as writer:
            writer.write_table(group, row_group_size=group.num_rows)
        num_rows = num_rows + group.num_rows
        num_bytes = num_bytes + group.nbytes
    files = [part.rename(folder / f"{split}-{n:05d}-of-{len(parts):05d}.parquet") for n, part in enumerate(parts)]
    sizes = (file.stat().st_size for file in files)
    hashes = (hash_file(file) for file in files)
    return Shards(tuple(file.name for file in files), num_rows, num_bytes, tuple(sizes), tuple(hashes))


def _join(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """Join consecutive tables up to ``size`` bytes."""
    pending: list[pa.Table] = []
    for table in tables:
        if pending and sum(part.nbytes for part in pending) + table.nbytes > size:
            yield pa.concat_tables(pending)
            pending = []
        pending.append(table)
    if pending:
        yield pa.concat_tables(pending)


def _plain_lists(described: Any) -> Any:  # noqa: ANN401 - a JSON tree
    if isinstance(described, dict) and described.get("_type") == "List" and described.get("length", -1) == -1:
        return [_plain_lists(described["feature"])]
    return {key: _plain_lists(value) for key, value in described.items()} if isinstance(described, dict) else described


MANIFEST_NAME = "manifest.json"
FORMAT = "cxc_eccv dataset folder 1"


def write_manifest(folder: Path, content: Mapping[str, Any], hashes: Mapping[str, str]) -> None:
    """Write ``manifest.json`` with ``content`` and the size and sha256 of every other file of ``folder``."""
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": hashes.get(name) or hash_file(folder / name)}
        for name in sorted(_files(folder))
        if name != MANIFEST_NAME
    }
    text = json.dumps({"format": FORMAT, **content, "files": files}, indent=2, ensure_ascii=False)
    (folder / MANIFEST_NAME).write_text(text + "\n", encoding="utf-8")


HARMLESS_OPTIONS = ("allow_modified", "mined", "labels")
"""Options that leave the data as it is, or whose effect the manifest names elsewhere."""


def list_departures(manifest: Mapping[str, Any]) -> list[str]:
    """What makes a build, by its manifest, another one than the plain build of the official data.

    Results are comparable on the plain build only, so a build with any departure is no benchmark.

    Raises:
        KeyError, TypeError, AttributeError: the manifest is not one that a build wrote.
    """
    catalog = load_catalog()
    edition = manifest["edition"]
    version = manifest["data_version"]
    departures = []
    if (edition, version) != (OFFICIAL, catalog.version):
        departures.append(f"edition {edition!r} {version}, not {OFFICIAL!r} {catalog.version}")
    if modified := manifest.get("modified"):
        departures.append(f"modified files: {', '.join(modified)}")
    # Files of labels and of mined pairs are not in the catalog.
    if own := [name for name in manifest["sources"] if name not in catalog.entries]:
        departures.append(f"labels or pairs of your own: {', '.join(own)}")
    defaults = {name: value for name, value in asdict(BuildOptions()).items() if name not in HARMLESS_OPTIONS}
    options = manifest["options"]
    changed = [f"{name}={options[name]!r}" for name, value in defaults.items() if options[name] != value]
    if changed:
        departures.append(f"other options than the defaults: {', '.join(changed)}")
    return departures


PATTERN = re.compile(r"[*?]|\[(?!!\])[^/]+\]|::")
"""What ``datasets`` reads as a pattern or a chain of addresses in the path of a folder, not as its name.

Its issue 7468: ``[2026] data`` has no files, ``[a]`` is read from ``a``, and ``a*`` has those of ``ab`` too.
"""


def refuse_unloadable(target: Path) -> None:
    """Refuse a folder that ``datasets.load_dataset`` cannot read under its path."""
    for path in dict.fromkeys((target.absolute(), target.resolve())):
        found = PATTERN.search(path.as_posix())
        if found is not None:
            raise InvalidOption(
                f"output {path}: datasets.load_dataset takes {found[0]!r} in a path for a pattern, and would read no "
                "file or those of other folders. Name a folder whose path has no *, ?, :: or [...]."
            )


def replaceable_files(target: Path, *, overwrite: bool = False) -> set[str]:
    """The files that a new build of ``target`` replaces: those of the earlier build."""
    if target.exists() and not target.is_dir():
        raise InvalidOption(f"{target} is a file. Name a folder to build.")
    if not overwrite:
        remedy = "Choose another output folder, or empty this one. In Python, overwrite=True removes every file in it"
        refuse_foreign(target, _files(target), _built_files(target), "build", remedy)
    return set(_files(target))  # the manifest may name files in other places


def _files(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _built_files(target: Path) -> set[str]:
    try:
        manifest = json.loads((target / MANIFEST_NAME).read_text(encoding="utf-8"))
        return {MANIFEST_NAME, *manifest["files"]} if manifest["format"] == FORMAT else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def open_library(data_dir: str | Path | None, options: BuildOptions, *, progress: bool = True) -> Library:
    """The raw sources, read according to ``options``."""
    return Library(
        data_dir,
        allow_modified=options.allow_modified,
        restval_in_train=options.restval_in_train,
        progress=progress,
        mined=options.mined,
        labels=options.labels,
    )


def find_origin(library: Library, files: Mapping[str, str]) -> BuildOrigin:
    """Edition, versions and hashes; ``files`` are the sha256 of the raw files that were read, by catalog name."""
    return BuildOrigin(
        edition=library.edition,
        data_version=library.catalog.version,
        package_version=version.__version__,
        fingerprint=fingerprint_files(files),
        sources=dict(sorted(files.items())),
        modified=library.catalog.modified(files),
        labels={
            key: {"name": file.name, **to_json(file.summary)}
            for key, file in library.label_files.items()
            if key in files
        },
    )
