"""Builds all configs of one split: the unit of work of a build, in this process or in another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
from tqdm import tqdm

from cxc_eccv.builders.card_statistics import split_statistics
from cxc_eccv.builders.config import BuildOptions, DatasetConfig
from cxc_eccv.builders.discovery import DEFAULT_CONFIG
from cxc_eccv.builders.image_files import ImageFolder, embed_images
from cxc_eccv.builders.shards import conform, portable_schema, row_groups, write_shards
from cxc_eccv.builders.summary import NotBuilt, SplitSummary
from cxc_eccv.errors import SourceMissing
from cxc_eccv.sources.library import Library

Outcome = SplitSummary | NotBuilt

__all__ = ["Outcome", "SplitJob", "build_split", "run_job"]


@dataclass(frozen=True, slots=True)
class SplitJob:
    """What to build for one split.

    Attributes:
        split: split name.
        configs: what to build; those that cannot have this split are passed over.
        options: the user's choices.
        folder: existing folder to write to.
        open_library: gives the raw sources.
        images: files to embed, or None.
        progress: show bars.
    """

    split: str
    configs: tuple[DatasetConfig, ...]
    options: BuildOptions
    folder: Path
    open_library: Callable[[], Library]
    images: ImageFolder | None = None
    progress: bool = True

    def of(self, split: str) -> SplitJob:
        """The same work for another split."""
        configs = tuple(config for config in self.configs if split in config.splits)
        return replace(self, split=split, configs=configs)


def run_job(job: SplitJob) -> tuple[list[Outcome], dict[str, str]]:
    """Build one split with a library of its own.

    Returns:
        What came of every config, and catalog name to sha256 of every raw file read.
    """
    library = job.open_library()
    return list(build_split(job, library)), library.files_used()


def build_split(job: SplitJob, library: Library) -> Iterator[Outcome]:
    """Write the Parquet files of every config of ``job``, one after the other.

    A config whose raw file is absent, or that has no row, is left out and said so; any other error ends the build.
    """
    for config in job.configs:
        place = f"{config.name}/{job.split}"
        try:
            rows = config.rows(library, job.split, job.options)
        except SourceMissing as error:
            yield NotBuilt(config.name, job.split, "its raw files are not at hand", str(error))
            continue
        if rows.table.num_rows == 0:
            yield NotBuilt(config.name, job.split, "no row")
            continue
        table = conform(rows.table, config.features, place)
        statistics = split_statistics(table, job.split, rows.left_out)
        folder = job.folder / config.name
        folder.mkdir(exist_ok=True)
        if job.images is not None and config.name == DEFAULT_CONFIG:
            yield _with_images(job, job.images, config, table, statistics)
        else:
            shards = write_shards(row_groups(table), folder, job.split)
            yield SplitSummary(config, job.split, config.features, shards, statistics)


def _with_images(
    job: SplitJob, files: ImageFolder, config: DatasetConfig, table: pa.Table, statistics: dict[str, object]
) -> SplitSummary:
    features = datasets.Features({**config.features, "image": datasets.Image()})
    found = sum(files.find(name) is not None for name in table["file_name"].to_pylist())
    with tqdm(total=table.num_rows, desc=f"{job.split} images", unit="image", disable=not job.progress) as bar:
        groups = _counted(embed_images(table, files, portable_schema(features)), bar)
        shards = write_shards(groups, job.folder / config.name, job.split)
    missing = table.num_rows - found
    return SplitSummary(config, job.split, features, shards, statistics, found, missing)


def _counted(groups: Iterator[pa.Table], bar: tqdm[Any]) -> Iterator[pa.Table]:
    for group in groups:
        yield group
        bar.update(group.num_rows)
