"""``cxc-eccv demo``: the whole path on the embedded sample, offline."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.delivery import add_command, check_folder
from cxc_eccv.terminal import say
from cxc_eccv.writing import replaced_folder

if TYPE_CHECKING:
    from cxc_eccv.types import Report

SHOWN = {"COCO 5K R@1": "coco_5k/{}/recall_at_1", "ECCV Caption mAP@R": "eccv_caption/{}/map_at_r"}
"""Name of a number to its key in the report, for a direction."""


def demo(
    output: Annotated[Path | None, typer.Option(help="Folder to keep the dataset, embeddings and report in.")] = None,
) -> None:
    """Build the embedded sample's dataset, train a small model on it, and score the model.

    Images are drawn scenes of coloured shapes; the model is a ridge regression from pixels to words. Needs no network
    and no GPU, and takes a few seconds.

    Examples:
    ```sh
    cxc-eccv demo
    cxc-eccv demo --output demo
    ```
    """
    from cxc_eccv.demo import earlier_files, run_demo, sample_images
    from cxc_eccv.report.folder import FILES, HTML, save_report

    check_folder(output)
    if output is None:
        with tempfile.TemporaryDirectory() as scratch:
            report = run_demo(Path(scratch))
    else:
        with replaced_folder(output, (*earlier_files(output), *FILES)) as folder:
            report = run_demo(folder)
            save_report(add_command(report), folder, images=sample_images())
    _summarize(report, None if output is None else output / HTML)


def _summarize(report: Report, page: Path | None) -> None:
    """Print what was done, the main numbers, and what to do next."""
    from cxc_eccv.types import CROSS_MODAL
    from cxc_eccv.wording import direction_name, name_data

    say(f"Toy data, {name_data(report)}")
    say("Built a dataset of drawings, captions and labels, trained a ridge regression on it, and scored the model.")
    for name, key in SHOWN.items():
        values = (f"{100 * report.scores[key.format(way)]:.1f}% {direction_name(way)}" for way in CROSS_MODAL)
        say(f"{name}: {', '.join(values)}")
    say(
        "To keep the dataset and a page of results: cxc-eccv demo --output demo"
        if page is None
        else f"Open {page} in a browser"
    )
