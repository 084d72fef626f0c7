"""``cxc-eccv demo``: the whole path on the embedded sample, offline."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.output import check_output, say_written, write_report
from cxc_eccv.terminal import say
from cxc_eccv.writing import replaced_folder


def demo(
    output: Annotated[Path | None, typer.Option(help="Folder to keep the dataset, embeddings and report in.")] = None,
) -> None:
    """Build the embedded sample's dataset, train a closed-form baseline on it, and score it.

    Images are drawn scenes of coloured shapes; the model is a ridge regression from pixels to words. Needs no network
    and no GPU, and takes a few seconds.

    Example: cxc-eccv demo --output demo
    """
    from cxc_eccv.demo.run import earlier_files, run_demo, sample_images
    from cxc_eccv.report.console import print_report
    from cxc_eccv.report.folder import FILES as REPORT_FILES
    from cxc_eccv.runs import load_run
    from cxc_eccv.sources.library import Library

    check_output(output)
    if output is None:
        with tempfile.TemporaryDirectory() as scratch:
            print_report(run_demo(Path(scratch), say=say))
        return
    with replaced_folder(output, (*earlier_files(output), *REPORT_FILES)) as folder:
        report = run_demo(folder, say=say)
        written = write_report(report, folder, load_run(folder / "ridge.npz"), Library("sample"), sample_images())
    print_report(report)
    say_written(output / path.name for path in written)
