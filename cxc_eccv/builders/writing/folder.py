"""Builds the Hub-ready folder: Parquet files, README card and manifest, swapped in at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from cxc_eccv.builders.cards import folder_card
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, select_configs
from cxc_eccv.builders.summary import BuildSummary, NotBuilt, SplitSummary
from cxc_eccv.builders.writing.manifest import open_library, provenance_of, require_replaceable, write_manifest
from cxc_eccv.builders.writing.splits import (
    Outcome,
    SplitJob,
    absent_splits,
    chosen_images,
    chosen_splits,
    require_images,
    require_rows,
    run_jobs,
)
from cxc_eccv.errors import InvalidOption
from cxc_eccv.writing import replaced_folder

__all__ = ["build_folder"]


def build_folder(
    output: str | Path,
    *,
    configs: Sequence[str | DatasetConfig] | None = None,
    splits: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    images: str | Path | None = None,
    num_proc: int = 1,
    options: BuildOptions = BuildOptions(),  # noqa: B008 - frozen
    progress: bool = True,
    overwrite: bool = False,
) -> BuildSummary:
    """Build a folder that ``datasets.load_dataset`` reads without this package.

    The folder holds ``<config>/<split>-00000-of-0000N.parquet``, a README card with the features and statistics of
    every config, and a manifest with the sha256 of every file and raw source. It replaces an earlier build in one
    step at the end; the same input gives the same bytes.

    Args:
        output: folder to create or replace.
        configs: names (or declarations of your own); None for all.
        splits: among ``train``, ``restval``, ``validation`` (or ``val``) and ``test``; None for all at hand.
        data_dir: local mirror folder, ``"sample"``, or None for ``CXC_ECCV_DATA``, else the download cache.
        images: folder with the images, embedded into config ``captions``; missing ones become null and are counted.
        num_proc: processes; each works on whole splits. A script needs ``if __name__ == "__main__":`` for several.
        options: conflict policy and rating thresholds.
        progress: show bars.
        overwrite: replace ``output`` even where it holds files that no build made.

    Returns:
        What was written and what was left out.

    Raises:
        InvalidOption: ``output`` holds foreign files, ``num_proc`` is under 1, ``images`` is no folder.
        UnknownName: no such config or split.
        SourceMissing: a config asked for by name, or everything, lacks its raw files; or no image was found at all.
        DataError: a split asked for is in none of the raw files at hand.
        WriteFailed: ``output`` cannot be written, or another build of it is under way.

    Example:
        >>> import tempfile
        >>> output = Path(tempfile.mkdtemp()) / "cxc_eccv"
        >>> summary = build_folder(output, configs=["sts"], splits=["test"], data_dir="sample", progress=False)
        >>> sorted(path.name for path in output.rglob("*.*"))
        ['README.md', 'manifest.json', 'test-00000-of-00001.parquet']
    """
    target = Path(output)
    if num_proc < 1:
        raise InvalidOption(f"num_proc={num_proc}: give 1 or more processes")
    if not overwrite:
        require_replaceable(target)
    chosen = select_configs(configs)
    files = chosen_images(images, chosen)
    opening = partial(open_library, data_dir, options, progress=progress)
    library = opening()
    wanted = chosen_splits(splits, library)
    with replaced_folder(target, wait=0) as folder:
        job = SplitJob("", tuple(chosen), options, folder, opening, files, progress)
        outcomes, sources = run_jobs([job.of(split) for split in wanted], library, num_proc, progress)
        outcomes += absent_splits(chosen, library.splits, options) if splits is None else []
        require_rows(outcomes, [] if configs is None else chosen)
        require_images(outcomes, files)
        parts, not_built = _sorted(outcomes, chosen)
        summary = BuildSummary(target, options, provenance_of(library, sources), parts, not_built)
        folder_card(summary, library.catalog).save(folder / "README.md")
        _write_manifest(folder, summary)
    return summary


def _sorted(
    outcomes: list[Outcome], chosen: list[DatasetConfig]
) -> tuple[tuple[SplitSummary, ...], tuple[NotBuilt, ...]]:
    order = [config.name for config in chosen]
    parts = [outcome for outcome in outcomes if isinstance(outcome, SplitSummary)]
    lost = [outcome for outcome in outcomes if isinstance(outcome, NotBuilt)]
    # Splits come in their own order already, and sorting is stable.
    parts.sort(key=lambda part: order.index(part.config.name))
    lost.sort(key=lambda part: order.index(part.config))
    return tuple(parts), tuple(lost)


def _write_manifest(folder: Path, summary: BuildSummary) -> None:
    configs = {
        name: {part.split: {"rows": part.shards.num_rows, "files": part.shards.files} for part in parts}
        for name, parts in summary.configs.items()
    }
    provenance = asdict(summary.provenance)
    if not summary.provenance.modified:
        del provenance["modified"]
    content = {**provenance, "options": asdict(summary.options), "configs": configs}
    hashes = {
        f"{part.config.name}/{file}": digest
        for part in summary.splits
        for file, digest in zip(part.shards.files, part.shards.sha256, strict=True)
    }
    write_manifest(folder, content, hashes)
