"""``cxc-eccv build``: raw files to a Hub-ready dataset folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import DATA, Labels, names, split_name
from cxc_eccv.terminal import say


def build(
    output: Annotated[Path, typer.Option(help="Folder to write; the files of an earlier build there are replaced.")],
    images: Annotated[
        Path | None, typer.Option(help="Folder with the JPEG files, to embed them in `captions`.")
    ] = None,
    configs: Annotated[
        list[str] | None, typer.Option(help="Configs, comma-separated or repeated. Default: all.")
    ] = None,
    splits: Annotated[list[str] | None, typer.Option(help="Splits, likewise. Default: all at hand.")] = None,
    num_proc: Annotated[int, typer.Option(min=1, help="Processes; splits are built side by side.")] = 1,
    policy: Annotated[str, typer.Option(help="Contradicting sources: union, strict or override.")] = "union",
    sts: Annotated[float, typer.Option(help="Lowest STS rating of a positive caption pair.")] = 3.0,
    sis: Annotated[float, typer.Option(help="Lowest SIS rating of a positive image pair, in either order.")] = 2.5,
    sits: Annotated[float, typer.Option(help="Lowest SITS rating of a positive image-caption pair.")] = 3.0,
    mined: Annotated[
        list[Path] | None,
        typer.Option(
            help="File of weak positives from mine, a further source of pairs and retrieval. Repeat for a split each."
        ),
    ] = None,
    labels: Labels = None,
    tagger: Annotated[
        str, typer.Option(help="spaCy pipeline that tags the captions of adversarial.")
    ] = "en_core_web_sm",
    seed: Annotated[int, typer.Option(help="Of the choices of adversarial.")] = 0,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Build even where the folder holds files that no build made; they are removed."
        ),
    ] = False,
    restval_in_train: Annotated[bool, typer.Option(help="Fold restval into train.")] = False,
) -> None:
    """Build the dataset folder that datasets.load_dataset reads.

    Examples:
      cxc-eccv build --output cxc_eccv_data
      cxc-eccv build --output DIR --images val2014 --configs captions,sits --splits test
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
            policy=policy,
            sts=sts,
            sis=sis,
            sits=sits,
            restval_in_train=restval_in_train,
            allow_modified=DATA.get().allow_modified,
            mined=tuple(map(str, mined or ())),
            tagger=tagger,
            seed=seed,
            labels=tuple(labels or ()),
        ),
        overwrite=overwrite,
    )
    say(str(summary))
