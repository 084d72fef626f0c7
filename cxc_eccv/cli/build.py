"""``cxc-eccv build``: raw files to a Hub-ready dataset folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import DATA, Labels, names, split_name
from cxc_eccv.terminal import say


def build(
    output: Annotated[Path, typer.Option(help="Folder to write. Files of an earlier build in it are replaced.")],
    images: Annotated[
        Path | None, typer.Option(help="Folder with the images, at any depth, to embed them in the config captions.")
    ] = None,
    configs: Annotated[
        list[str] | None, typer.Option(help="Configs, comma-separated or repeated. Default: all.")
    ] = None,
    splits: Annotated[list[str] | None, typer.Option(help="Splits, comma-separated or repeated. Default: all.")] = None,
    num_proc: Annotated[int, typer.Option(min=1, help="Number of processes; each builds other splits.")] = 1,
    mined: Annotated[
        list[Path] | None,
        typer.Option(help="Weak positives from mine, for the configs pairs and retrieval. Repeat for each split."),
    ] = None,
    labels: Labels = None,
    tagger: Annotated[
        str, typer.Option(help="spaCy pipeline that tags the captions of the config adversarial.")
    ] = "en_core_web_sm",
    seed: Annotated[int, typer.Option(help="Seed of the config adversarial.")] = 0,
    restval_in_train: Annotated[bool, typer.Option("--restval-in-train", help="Add restval to train.")] = False,
) -> None:
    """Build a dataset folder that datasets.load_dataset reads.

    Examples:
      cxc-eccv build --output cxc_eccv_data
      cxc-eccv build --output cxc_eccv_data --images val2014
      --configs captions,sits --splits test
    """
    from cxc_eccv.builders.config import BuildOptions
    from cxc_eccv.builders.writing import build_folder

    summary = build_folder(
        output,
        configs=names(configs),
        splits=[split_name(split) for split in names(splits) or []] or None,
        data_dir=DATA.get().data_dir,
        images=images,
        num_proc=num_proc,
        options=BuildOptions(
            restval_in_train=restval_in_train,
            allow_modified=DATA.get().allow_modified,
            mined=tuple(map(str, mined or ())),
            tagger=tagger,
            seed=seed,
            labels=tuple(labels or ()),
        ),
    )
    say(str(summary))
