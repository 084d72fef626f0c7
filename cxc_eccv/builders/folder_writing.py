"""Build a folder for the Hub: Parquet by config and split, card and manifest.

The files are moved to their places at the end. Processes share the work by split.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
from tqdm import tqdm

from cxc_eccv.builders.dataset_cards import LICENCE_FILE, folder_card, licence_file
from cxc_eccv.builders.dataset_config import BuildOptions, DatasetConfig, dataset_configs, select_configs
from cxc_eccv.builders.image_columns import IMAGES_AT_ONCE, ImageFolder, embed_images
from cxc_eccv.builders.mteb_layout import MTEB_LAYOUT, WITHOUT_PHOTOGRAPHS, mteb_configs, mteb_files
from cxc_eccv.builders.output import (
    BuildSummary,
    NotBuilt,
    SplitSummary,
    conform,
    find_origin,
    list_departures,
    open_library,
    portable_schema,
    refuse_unloadable,
    replaceable_files,
    row_groups,
    write_manifest,
    write_shards,
)
from cxc_eccv.builders.statistics import split_statistics
from cxc_eccv.errors import InvalidOption, SourceMissing, UnknownName
from cxc_eccv.sources.catalog import SPLIT_NAMES, SPLITS, load_catalog
from cxc_eccv.sources.library import Library
from cxc_eccv.types.strict_json import Json
from cxc_eccv.writing import replaced_folder

FILES_MISSING = "its raw files are missing"
DATASETS_LAYOUT = "datasets"
LAYOUTS = (DATASETS_LAYOUT, MTEB_LAYOUT)
TOOLS_MISSING = "the tool that makes it is missing; name the config to read how to get it"

Outcome = SplitSummary | NotBuilt
Build = Callable[[str, Library], Iterator[Outcome]]
Outcomes = tuple[list[Outcome], dict[str, str]]
"""The outcome of every config and split, and the sha256 of every raw file read, by catalog name."""


def build_folder(
    output: str | Path,
    *,
    configs: Sequence[str | DatasetConfig] | None = None,
    splits: Sequence[str] | None = None,
    layout: str = DATASETS_LAYOUT,
    data_dir: str | Path | None = None,
    images: str | Path | None = None,
    num_proc: int = 1,
    options: BuildOptions = BuildOptions(),  # noqa: B008 - frozen
    progress: bool = True,
    overwrite: bool = False,
) -> BuildSummary:
    """Build a folder that ``datasets.load_dataset`` reads without this package.

    The folder holds ``<config>/<split>-00000-of-0000N.parquet``, a README card with the features and statistics of
    every config, the terms of their sources in ``LICENSE.md``, and a manifest with the sha256 of every file and raw
    source. At the end they replace the files of an earlier build. The same input gives the same bytes.

    Args:
        output: folder to create or replace.
        configs: names, or your own declarations; None for all.
        splits: among ``train``, ``restval``, ``validation`` (or ``val``) and ``test``; None for all on this machine.
        layout: ``datasets``, or ``mteb`` for corpus, queries and qrels of CxC and ECCV Caption as mteb reads them, with
            a file of its tasks (:mod:`cxc_eccv.builders.mteb_layout`).
        data_dir: local mirror folder, ``"sample"``, or None for ``CXC_ECCV_DATA``, else the download cache.
        images: folder with the images, embedded into the configs ``captions`` and ``pairs``; missing ones become null
            and are counted. The layout ``mteb`` has them in ``images``, and needs them all.
        num_proc: processes; each works on whole splits. A script needs ``if __name__ == "__main__":`` for several.
        options: conflict policy and rating thresholds.
        progress: show bars.
        overwrite: build even if ``output`` has files that no build wrote, and remove them.

    Returns:
        A summary of what was written and what was left out.

    Raises:
        InvalidOption: ``output`` has other files, ``num_proc`` is less than 1, ``images`` is not a folder, or
            ``configs`` are named of another layout than ``datasets``.
        UnknownName: no such config, split or layout.
        SourceMissing: the raw files of a config in ``configs``, or of all, are missing; or no image was found.
        DataError: a split in ``splits`` is in none of the raw files.
        WriteFailed: ``output`` cannot be written, or another process is building it.

    Example:
        >>> import tempfile
        >>> output = Path(tempfile.mkdtemp()) / "cxc_eccv"
        >>> summary = build_folder(output, configs=["sts"], splits=["test"], data_dir="sample", progress=False)
        >>> sorted(path.name for path in output.rglob("*.*"))
        ['LICENSE.md', 'README.md', 'manifest.json', 'test-00000-of-00001.parquet']
    """
    target = Path(output)
    refuse_unloadable(target)
    if num_proc < 1:
        raise InvalidOption(f"num_proc={num_proc}: expected 1 or more processes")
    earlier = replaceable_files(target, overwrite=overwrite)
    chosen = _choose_configs(layout, configs)
    files = _image_folder(images, chosen)
    opening = partial(open_library, data_dir, options, progress=progress)
    library = opening()
    wanted = _choose_splits(splits, library)
    _require_labels_used(library, wanted)
    if layout == MTEB_LAYOUT and files is not None:
        files.find_all(library.split("test").images["file_name"].to_pylist(), "test")
    with replaced_folder(target, earlier, wait=0) as folder:
        build = partial(_build_split, configs=chosen, options=options, folder=folder, images=files, progress=progress)
        total = sum(len(set(wanted).intersection(config.splits)) for config in chosen)
        with tqdm(total=total, desc="build", unit="config", disable=not progress) as bar:
            if num_proc == 1 or len(wanted) < 2:
                outcomes = _build_here(build, library, wanted, bar)
                sources = library.files_used()
            else:
                outcomes, sources = _build_in_processes(
                    partial(_build_with_own_library, build, opening), wanted, num_proc, bar
                )
                sources = library.files_used() | sources
        if splits is None:
            outcomes += _absent_splits(chosen, library.splits, options)
        order = [config.name for config in chosen]
        # Sorting is stable: the splits stay in order.
        parts = [outcome for outcome in outcomes if isinstance(outcome, SplitSummary)]
        parts.sort(key=lambda part: order.index(part.config.name))
        not_built = [outcome for outcome in outcomes if isinstance(outcome, NotBuilt)]
        not_built.sort(key=lambda part: order.index(part.config))
        _require_rows(parts, not_built, [] if configs is None else chosen)
        _require_images(parts, files)
        _require_labels_used(library, wanted, sources)
        notes = (WITHOUT_PHOTOGRAPHS,) if layout == MTEB_LAYOUT and files is None else ()
        origin = find_origin(library, sources)
        summary = BuildSummary(target, options, origin, tuple(parts), tuple(not_built), notes)
        _write_texts(folder, summary, library, sources)
        manifest = _make_manifest(summary)
        if layout == MTEB_LAYOUT:
            for name, text in mteb_files(is_benchmark=not list_departures(manifest)).items():
                (folder / name).write_text(text, encoding="utf-8")
        hashes = {}
        for part in parts:
            for file, digest in zip(part.shards.files, part.shards.sha256, strict=True):
                hashes[f"{part.config.name}/{file}"] = digest
        write_manifest(folder, manifest, hashes)
    return summary


def _choose_configs(layout: str, configs: Sequence[str | DatasetConfig] | None) -> list[DatasetConfig]:
    if layout not in LAYOUTS:
        raise UnknownName("layout", layout, LAYOUTS)
    if layout == DATASETS_LAYOUT:
        return select_configs(configs)
    if configs is not None:
        raise InvalidOption(f"the layout {layout} has configs of its own; leave out the configs")
    return mteb_configs()


def _image_folder(images: str | Path | None, configs: Sequence[DatasetConfig]) -> ImageFolder | None:
    if images is None:
        return None
    if not any(config.photographs for config in configs):
        names = " and ".join(name for name, config in dataset_configs().items() if config.photographs)
        raise InvalidOption(f"images are embedded into the configs {names}, and none of them is built")
    return ImageFolder(images)


def _choose_splits(wanted: Sequence[str] | None, library: Library) -> list[str]:
    """The splits to build, in their usual order; all on this machine for None."""
    if wanted is None:
        return list(library.splits)
    names = [SPLIT_NAMES.get(split, split) for split in wanted]
    for name in names:
        library.split(name)  # raises if the split is unknown or the raw files lack it
    return [split for split in SPLITS if split in names]


def _build_here(build: Build, library: Library, splits: Sequence[str], bar: tqdm[Any]) -> list[Outcome]:
    outcomes = []
    for outcome in chain.from_iterable(build(split, library) for split in splits):
        outcomes.append(outcome)
        bar.update()
    return outcomes


def _build_in_processes(
    build: Callable[[str], Outcomes], splits: Sequence[str], num_proc: int, bar: tqdm[Any]
) -> Outcomes:
    # Not fork: a child may inherit a lock that a thread of Arrow holds.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(num_proc, len(splits)), mp_context=context) as pool:
        futures = [pool.submit(build, split) for split in splits]
        try:
            for future in as_completed(futures):
                bar.update(len(future.result()[0]))
        except BrokenProcessPool:
            raise InvalidOption(
                f"num_proc={num_proc}: a process died. Either memory ran out, or a script calls build_folder outside "
                '`if __name__ == "__main__":`. Use one process (num_proc=1).'
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    outcomes: list[Outcome] = []
    files: dict[str, str] = {}
    for future in futures:
        of_split, files_of_split = future.result()
        outcomes += of_split
        files |= files_of_split
    return outcomes, files


def _build_with_own_library(build: Build, opening: Callable[[], Library], split: str) -> Outcomes:
    library = opening()
    return list(build(split, library)), library.files_used()


def _build_split(
    split: str,
    library: Library,
    *,
    configs: Sequence[DatasetConfig],
    options: BuildOptions,
    folder: Path,
    images: ImageFolder | None,
    progress: bool,
) -> Iterator[Outcome]:
    """Write the Parquet files of every config that has this split."""
    for config in configs:
        if split not in config.splits:
            continue
        try:
            rows = config.rows(library.split(split, config.data), options)
        except SourceMissing as error:
            reason = FILES_MISSING if config.made_with is None else TOOLS_MISSING
            yield NotBuilt(config.name, split, reason, str(error))
            continue
        if rows.table.num_rows == 0:
            yield NotBuilt(config.name, split, "no row")
            continue
        table = conform(rows.table, config.features, f"{config.name}/{split}")
        tools = {} if config.made_with is None else config.made_with(options)
        statistics = split_statistics(table, split, rows.left_out, tools)
        features = config.features
        groups = row_groups(table)
        present = 0
        missing = 0
        if images is not None and config.photographs:
            features = datasets.Features({**config.features, "image": datasets.Image()})
            names = set(table["file_name"].to_pylist())
            present = sum(images.find(name) is not None for name in names)
            missing = len(names) - present
            groups = embed_images(table, images, portable_schema(features))
            n_groups = math.ceil(table.num_rows / IMAGES_AT_ONCE)
            groups = iter(tqdm(groups, f"{split} images", n_groups, disable=not progress))
        config_folder = folder / config.name
        config_folder.mkdir(exist_ok=True)
        yield SplitSummary(
            config=config,
            split=split,
            features=features,
            shards=write_shards(groups, config_folder, split),
            statistics=statistics,
            images_found=present,
            images_missing=missing,
        )


def _absent_splits(configs: Sequence[DatasetConfig], present: Sequence[str], options: BuildOptions) -> list[Outcome]:
    """The splits of configs that the raw files lack."""
    reason = f"it is in {load_catalog().entry('karpathy_coco').path}, which is missing"
    folded = {"restval": "it is folded into train"} if options.restval_in_train else {}
    outcomes: list[Outcome] = []
    for config in configs:
        absent = [split for split in config.splits if split not in present]
        outcomes += [NotBuilt(config.name, split, folded.get(split, reason)) for split in absent]
    return outcomes


def _require_rows(parts: Sequence[SplitSummary], not_built: Sequence[NotBuilt], named: Sequence[DatasetConfig]) -> None:
    """Raise if there is no row at all, or no row of a config in ``named``."""
    built = {part.config.name for part in parts}
    lacking = {config.name: config for config in named if config.name not in built}
    for part in not_built:
        if part.missing and (not built or part.config in lacking):
            raise SourceMissing(part.missing)
    for name, config in lacking.items():
        raise InvalidOption(f"config {name!r} has no row in the chosen splits; it can have {', '.join(config.splits)}")
    if not built:
        raise InvalidOption("nothing to build: no config has a row in the chosen splits")


def _require_labels_used(library: Library, splits: Sequence[str], sources: Collection[str] | None = None) -> None:
    """Raise if the build does not use a file of labels that the user named; before the build, its split decides."""
    mined = [(key, key, path, pairs.split) for key, (path, pairs) in library.mined_files.items()]
    labels = [(key, file.name, file.path, file.split) for key, file in library.label_files.items()]
    files = [*mined, *labels]
    used = {key for key, _, _, split in files if (split in splits if sources is None else key in sources)}
    names = {name for key, name, _, _ in files if key in used}
    for key, name, path, split in files:
        of_other_split = name in names and split in library.splits and split not in splits
        if key not in used and not of_other_split:
            folded = split == "restval" and library.restval_in_train
            reason = (
                "which is folded into train" if folded else f"and no row of this build ({', '.join(splits)}) uses it"
            )
            raise InvalidOption(
                f"{path} is of the split {split}, {reason}. The configs pairs and retrieval use weak positives and "
                "labels: build them for this split, or leave out the file"
            )


def _require_images(parts: Sequence[SplitSummary], images: ImageFolder | None) -> None:
    """Raise if no image of the folder was found."""
    missing = sum(part.images_missing for part in parts)
    if images is not None and missing and not any(part.images_found for part in parts):
        raise SourceMissing(
            f"none of the {missing} images was found in {images.folder.resolve()} or below it. "
            "Files need their COCO names, such as COCO_val2014_000000391895.jpg."
        )


def _write_texts(folder: Path, summary: BuildSummary, library: Library, sources: Mapping[str, str]) -> None:
    """Write the card and the terms of the sources."""
    folder_card(summary, library.catalog).save(folder / "README.md")
    built = [parts[0].config for parts in summary.configs.values()]
    shows = any(part.images_found for part in summary.splits)
    licences = licence_file(built, library.catalog, sources, images=shows)
    (folder / LICENCE_FILE).write_text(licences, encoding="utf-8")


def _make_manifest(summary: BuildSummary) -> dict[str, Json]:
    """The facts of the build; the file names its other files too."""
    configs: dict[str, dict[str, Json]] = {}
    for part in summary.splits:
        entry: dict[str, Json] = {"rows": part.shards.num_rows, "files": part.shards.files}
        if tools := part.statistics.get("made_with"):
            entry["made_with"] = tools
        configs.setdefault(part.config.name, {})[part.split] = entry
    facts = asdict(summary.provenance).items()
    provenance = {name: value for name, value in facts if value or name not in ("modified", "labels")}
    # Not paths on this machine; the sources have the hashes of these files.
    options = {name: value for name, value in asdict(summary.options).items() if name not in ("mined", "labels")}
    manifest: dict[str, Json] = {**provenance, "options": options, "configs": configs}
    if summary.not_built:
        # Not the whole errors, which name paths on this machine.
        manifest["not_built"] = [
            {"config": part.config, "split": part.split, "reason": part.reason} for part in summary.not_built
        ]
    return manifest
