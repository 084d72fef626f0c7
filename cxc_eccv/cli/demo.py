"""``cxc-eccv demo``: the whole path on the embedded sample, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.terminal import say

__all__ = ["demo"]


def demo(
    output: Annotated[Path | None, typer.Option(help="Folder to keep the dataset, embeddings and report in.")] = None,
) -> None:
    """Build the embedded sample's dataset, train a closed-form baseline on it, and score it.

    Images are drawn scenes of coloured shapes; the model is a ridge regression from pixels to words. Needs no network
    and no GPU, and takes a few seconds.

    Example: cxc-eccv demo --output demo
    """
    import tempfile

    from cxc_eccv.baselines.demo import run_demo, sample_images
    from cxc_eccv.cli.output import write_report
    from cxc_eccv.report.console import print_report
    from cxc_eccv.runs import load_run
    from cxc_eccv.sources.library import Library

    with tempfile.TemporaryDirectory() as scratch:
        report = run_demo(output or Path(scratch), say=say)
        print_report(report)
        if output is not None:
            write_report(report, output, load_run(output / "ridge.npz"), Library("sample"), sample_images())
