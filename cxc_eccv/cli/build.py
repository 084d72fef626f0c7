"""``cxc-eccv demo``: the embedded sample; ``images``: COCO's photographs; ``build``: raw files to a dataset folder."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.delivery import add_command, check_folder, find_program
from cxc_eccv.cli.shared_options import DATA, OF_ADVANCED, Labels, names, open_library, split_name
from cxc_eccv.errors import ExtraMissing, InvalidOption, UnknownName
from cxc_eccv.terminal import say, show_steps
from cxc_eccv.writing import refuse_unwritable, replaced_folder

if TYPE_CHECKING:
    from cxc_eccv.report import Report


DEMO_NUMBERS = {"COCO 5K R@1": "coco_5k/{}/recall_at_1", "ECCV Caption mAP@R": "eccv_caption/{}/map_at_r"}
"""Name of a number to its key in the report, for a direction."""


def demo(
    output: Annotated[Path | None, typer.Option(help="Folder to keep the dataset, embeddings and report in.")] = None,
) -> None:
    """Build, train and score on an embedded sample, in seconds.

    Examples:
    ```sh
    cxc-eccv demo
    cxc-eccv demo --output demo
    ```

    It builds the sample's dataset, trains a small model on it, and scores the model. Images are drawn scenes of
    coloured shapes; the model is a ridge regression from pixels to words. Needs no network and no GPU. The folder also
    has a model of random weights, to try --model with.
    """
    with show_steps(1) as begin:
        begin("loading packages")
        from cxc_eccv.builders.output import refuse_unloadable
        from cxc_eccv.cli.demo import RANDOM_MODEL, earlier_files, run_demo
        from cxc_eccv.cli.random_model import write_random_model
        from cxc_eccv.report.saving import FILES, HTML, save_report
        from cxc_eccv.sources.download import sample_images

    check_folder(output)
    if output is None:
        with tempfile.TemporaryDirectory() as scratch:
            report = run_demo(Path(scratch))
    else:
        refuse_unloadable(output)
        with replaced_folder(output, (*earlier_files(output), *FILES)) as folder:
            report = run_demo(folder)
            write_random_model(folder / RANDOM_MODEL)
            save_report(add_command(report), folder, images=sample_images())
    _summarize(report)
    if output is None:
        say(f"To keep the dataset, a page of results and a model to try: {find_program()} demo --output demo")
        return
    say(f"Open {output / HTML} in a browser")
    say(f"Next: {_choose_next_command(output)}")


def _choose_next_command(output: Path) -> str:
    """A command that scores a model of the demo, which works without a network and with the installed packages."""
    from cxc_eccv.cli.demo import EMBEDDINGS_FILE, RANDOM_MODEL
    from cxc_eccv.cli.named_models import check_packages

    model = str(output / RANDOM_MODEL)
    try:
        check_packages(model)
    except ExtraMissing:
        arguments = [str(output / EMBEDDINGS_FILE)]
    else:
        arguments = ["--model", model, "--images", "sample"]
    return shlex.join([find_program(), "evaluate", *arguments, "--data-dir", "sample"])


def _summarize(report: Report) -> None:
    """Print what was done, and the main numbers."""
    from cxc_eccv.types import CROSS_MODAL
    from cxc_eccv.wording import direction_name, name_data

    say(f"Toy data, {name_data(report.results, report.provenance)}")
    say("Built a dataset of drawings, captions and labels, trained a ridge regression on it, and scored the model.")
    for name, key in DEMO_NUMBERS.items():
        values = (f"{100 * report.scores[key.format(way)]:.1f}% {direction_name(way)}" for way in CROSS_MODAL)
        say(f"{name}: {', '.join(values)}")


COCO_FOLDERS = {"val2014": ("test", "validation", "restval"), "train2014": ("train",)}
"""Folders of COCO's release of 2014, to the splits whose photographs they hold; the first one is the default."""


def images(
    name: Annotated[str, typer.Argument(metavar="NAME", help="val2014 or train2014, as COCO names them.")],
    output: Annotated[Path, typer.Option(help="Folder for the photographs.")],
    split: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT", help="test, val, restval or all (40,504 photographs, 6.6 GB) of val2014. Default: test."
        ),
    ] = None,
) -> None:
    """Download COCO's photographs: 5,000 of the test split, 0.8 GB.

    Examples:
    ```sh
    cxc-eccv images val2014 --output val2014
    cxc-eccv images val2014 --split val --output val2014
    ```

    Each file is checked. Files that are in the folder already are never replaced, so run the same command again after
    an interruption. The photographs are not part of this package: see https://cocodataset.org/#termsofuse.
    """
    from cxc_eccv.sources.catalog import OFFICIAL
    from cxc_eccv.sources.library import COCO_BUCKET, COCO_IMAGES
    from cxc_eccv.sources.photographs import fetch_photographs

    splits = _choose_splits(name, split)
    refuse_unwritable(output)
    library = open_library()
    if library.edition != OFFICIAL:
        raise InvalidOption(
            f"this command downloads COCO's photographs, and the data is the edition {library.edition!r}, which has "
            "none of them. Unset CXC_ECCV_DATA, or name "
            "the folder of the official data with --data-dir."
        )
    addresses = {}
    for split in splits:
        for row in library.split(split).images.to_pylist():
            if row["folder"] == name:
                path = f"{name}/{row['file_name']}"
                addresses[row["file_name"]] = [f"{COCO_BUCKET}/{path}", f"{COCO_IMAGES}/{path}"]
    try:
        counts = fetch_photographs(addresses, output)
    except KeyboardInterrupt:
        say(f"{output} keeps the photographs that arrived. Run the same command again for the others.", err=True)
        raise
    downloaded = counts["https"] + counts["http"]
    kept = counts["kept"]
    say(f"{output} has all {len(addresses):,} photographs: {downloaded:,} downloaded, {kept:,} there before")
    if counts["http"]:
        say(f"{counts['http']:,} came from {COCO_IMAGES}, without encryption: {COCO_BUCKET} did not deliver them")


def _choose_splits(name: str, split: str | None) -> tuple[str, ...]:
    if name not in COCO_FOLDERS:
        raise UnknownName("folder of photographs", name, COCO_FOLDERS)
    splits = COCO_FOLDERS[name]
    if split == "all":
        return splits
    chosen = splits[0] if split is None else split_name(split)
    if chosen not in splits:
        raise InvalidOption(f"{name} has no photograph of the split {chosen}; it has those of {', '.join(splits)}")
    return (chosen,)


def build(
    output: Annotated[Path, typer.Option(help="Folder to write. Files of an earlier build in it are replaced.")],
    images: Annotated[
        Path | None, typer.Option(help="Folder with the images, at any depth, to embed them in captions and pairs.")
    ] = None,
    layout: Annotated[
        str,
        typer.Option(
            metavar="datasets|mteb",
            help="mteb: corpus, queries and qrels of CxC and ECCV Caption, and mteb's tasks.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = "datasets",
    configs: Annotated[
        list[str] | None, typer.Option(help="Configs, comma-separated or repeated. Default: all.")
    ] = None,
    splits: Annotated[list[str] | None, typer.Option(help="Splits, comma-separated or repeated. Default: all.")] = None,
    num_proc: Annotated[
        int, typer.Option(min=1, help="Number of processes, which share the splits.", rich_help_panel=OF_ADVANCED)
    ] = 1,
    mined: Annotated[
        list[Path] | None,
        typer.Option(
            help="Weak positives from mine, for the configs pairs and retrieval. Repeat for each split.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
    labels: Labels = None,
    tagger: Annotated[
        str,
        typer.Option(
            help="spaCy pipeline that tags the captions of the config adversarial.", rich_help_panel=OF_ADVANCED
        ),
    ] = "en_core_web_sm",
    restval_in_train: Annotated[
        bool, typer.Option("--restval-in-train", help="Add restval to train.", rich_help_panel=OF_ADVANCED)
    ] = False,
) -> None:
    r"""Build a dataset folder that datasets.load_dataset reads.

    Examples:
    ```sh
    cxc-eccv build --output cxc_eccv_data
    cxc-eccv build --output cxc_eccv_data --images val2014 \
      --configs captions,sits --splits test
    cxc-eccv build --output cxc_eccv_mteb --images val2014 --layout mteb
    ```
    """
    from cxc_eccv.builders.dataset_config import BuildOptions
    from cxc_eccv.builders.folder_writing import build_folder

    summary = build_folder(
        output,
        configs=names(configs),
        splits=[split_name(split) for split in names(splits) or []] or None,
        layout=layout,
        data_dir=DATA.get().data_dir,
        images=images,
        num_proc=num_proc,
        options=BuildOptions(
            restval_in_train=restval_in_train,
            allow_modified=DATA.get().allow_modified,
            mined=tuple(map(str, mined or ())),
            tagger=tagger,
            labels=tuple(labels or ()),
        ),
    )
    say(str(summary))
