"""What a build is asked for against what it can have: splits, images, rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cxc_eccv.builders.config import BuildOptions, DatasetConfig
from cxc_eccv.builders.discovery import DEFAULT_CONFIG
from cxc_eccv.builders.image_files import ImageFolder
from cxc_eccv.builders.split_build import Outcome
from cxc_eccv.builders.summary import NotBuilt, SplitSummary
from cxc_eccv.errors import InvalidOption, SourceMissing
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.sources.library import Library

__all__ = ["SPLITS", "absent_splits", "chosen_images", "chosen_splits", "require_images", "require_rows"]

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
