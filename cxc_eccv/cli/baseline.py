"""``cxc-eccv baseline``: score a reference model on the real data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir, split_name

__all__ = ["baseline"]


def baseline(
    name: Annotated[str, typer.Argument(help="Which baseline: bow.")],
    split: Annotated[str, typer.Option(help="Split to score: val or test.")] = "test",
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
    output: Annotated[Path | None, typer.Option(help="Folder for report.json.")] = None,
) -> None:
    """Score a baseline that needs no training images.

    bow: TF-IDF bag of words with document frequencies of the validation captions; text-text retrieval on CxC.

    Example: cxc-eccv baseline bow --split test
    """
    from cxc_eccv.baselines.bow import evaluate_bow
    from cxc_eccv.cli.output import write_report
    from cxc_eccv.errors import UnknownName
    from cxc_eccv.report.console import print_report
    from cxc_eccv.sources.library import Library

    if name != "bow":
        raise UnknownName("baseline", name, ["bow"])
    library = Library(data_dir, allow_modified=allow_modified)
    report = evaluate_bow(library, split_name(split))
    print_report(report)
    write_report(report, output)
