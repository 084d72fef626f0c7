"""All configs of one split, the unit of work of a build, in this process or in others; and what is checked before."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
from tqdm import tqdm

from cxc_eccv.builders.cards import split_statistics
from cxc_eccv.builders.config import DEFAULT_CONFIG, BuildOptions, DatasetConfig
from cxc_eccv.builders.image_files import ImageFolder, embed_images
from cxc_eccv.builders.summary import NotBuilt, SplitSummary
from cxc_eccv.builders.writing.shards import conform, portable_schema, row_groups, write_shards
from cxc_eccv.errors import InvalidOption, SourceMissing
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.sources.library import Library

__all__ = ["SPLITS", "absent_splits", "chosen_images", "chosen_splits", "require_images", "require_rows", "run_jobs"]

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


def run_jobs(
    jobs: list[SplitJob], library: Library, num_proc: int, progress: bool
) -> tuple[list[Outcome], dict[str, str]]:
    """What came of every config and split, and catalog name to sha256 of every raw file read.

    Args:
        jobs: one per split.
        library: the raw sources; other processes open their own.
        num_proc: processes.
        progress: show a bar.

    Raises:
        InvalidOption: another process died.
    """
    total = sum(len(job.configs) for job in jobs)
    with tqdm(total=total, desc="build", unit="config", disable=not progress) as bar:
        run = _run_here if num_proc == 1 or len(jobs) < 2 else _run_in_processes
        return run(jobs, library, num_proc, bar)


def _run_here(
    jobs: list[SplitJob], library: Library, _num_proc: int, bar: tqdm[Any]
) -> tuple[list[Outcome], dict[str, str]]:
    outcomes = []
    for job in jobs:
        for outcome in build_split(job, library):
            outcomes.append(outcome)
            bar.update()
    return outcomes, library.files_used()


def _run_in_processes(
    jobs: list[SplitJob], library: Library, num_proc: int, bar: tqdm[Any]
) -> tuple[list[Outcome], dict[str, str]]:
    # Not forked: a forked child may inherit a lock that a thread of Arrow holds.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(num_proc, len(jobs)), mp_context=context) as pool:
        futures = [pool.submit(run_job, job) for job in jobs]
        try:
            for future in as_completed(futures):
                bar.update(len(future.result()[0]))
        except BrokenProcessPool:
            raise InvalidOption(
                f"num_proc={num_proc}: a process died. Either memory ran out, or a script calls build_folder outside "
                'of `if __name__ == "__main__":`. One process (num_proc=1) needs neither.'
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    files = library.files_used()
    for future in futures:
        files |= future.result()[1]
    return [outcome for future in futures for outcome in future.result()[0]], files


SPLITS = ("train", "restval", "validation", "test")


def chosen_splits(wanted: Sequence[str] | None, library: Library) -> list[str]:
    """The splits to build, in their usual order; all at hand for None, and ``val`` stands for ``validation``.

    Raises:
        UnknownName: no split has this name.
        DataError: the raw files at hand do not hold a split that was asked for.

    Example:
        >>> chosen_splits(["test", "val"], Library("sample"))
        ['validation', 'test']
    """
    if wanted is None:
        return list(library.splits)
    names = ["validation" if split == "val" else split for split in wanted]
    for name in names:
        library.karpathy(name)
    return [split for split in SPLITS if split in names]


def absent_splits(configs: Sequence[DatasetConfig], at_hand: Sequence[str], options: BuildOptions) -> list[NotBuilt]:
    """The splits that configs could have and the raw files do not hold."""
    return [
        NotBuilt(config.name, split, _why_absent(split, options))
        for config in configs
        for split in config.splits
        if split not in at_hand
    ]


def chosen_images(images: str | Path | None, configs: Sequence[DatasetConfig]) -> ImageFolder | None:
    """The folder with images to embed, or None.

    Raises:
        InvalidOption: no such folder, or no config to embed them into.
    """
    if images is None:
        return None
    if DEFAULT_CONFIG not in {config.name for config in configs}:
        raise InvalidOption(f"images are embedded into config {DEFAULT_CONFIG!r}, which is not among those to build")
    return ImageFolder(images)


def require_rows(outcomes: Sequence[Outcome], named: Sequence[DatasetConfig]) -> None:
    """Refuse a build without any row, or without one of a config asked for by name.

    Raises:
        SourceMissing: for want of a raw file.
        InvalidOption: because the chosen splits have none.
    """
    built = {outcome.config.name for outcome in outcomes if isinstance(outcome, SplitSummary)}
    required = {config.name for config in named} - built
    for outcome in outcomes:
        if isinstance(outcome, NotBuilt) and outcome.missing and (not built or outcome.config in required):
            raise SourceMissing(outcome.missing)
    for config in named:
        if config.name in required:
            raise InvalidOption(
                f"config {config.name!r} has no row in the chosen splits; it can have {', '.join(config.splits)}"
            )
    if not built:
        raise InvalidOption("nothing to build: no config has a row in the chosen splits")


def require_images(outcomes: Sequence[Outcome], images: ImageFolder | None) -> None:
    """Refuse a build with images that found none.

    Raises:
        SourceMissing: says where it looked and for what.
    """
    parts = [outcome for outcome in outcomes if isinstance(outcome, SplitSummary)]
    missing = sum(part.images_missing for part in parts)
    if images is not None and missing and not any(part.images_found for part in parts):
        raise SourceMissing(
            f"none of the {missing} images was found in {images.folder.resolve()} or below it. "
            "Files are looked for by their COCO 2014 names, as COCO_val2014_000000391895.jpg."
        )


def _why_absent(split: str, options: BuildOptions) -> str:
    if split == "restval" and options.restval_in_train:
        return "it is folded into train"
    return f"it is in {load_catalog().entry('karpathy_coco').path}, which is not at hand"
