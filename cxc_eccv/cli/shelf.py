"""``cxc-eccv shelf``: a folder of run files, whose models are scored again under any labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import (
    Command,
    DataCommand,
    Labels,
    Names,
    Sources,
    Tasks,
    TrainingData,
    Without,
    names,
    open_library,
)
from cxc_eccv.cli.output import check_folder, say_written
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.terminal import print_shown, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cxc_eccv.types import Report

shelf = typer.Typer(no_args_is_help=True, help="Keep runs, and score them again under any labels.")

Folder = Annotated[Path, typer.Argument(help="Folder of the shelf.")]
Repo = Annotated[str, typer.Argument(help="Dataset repository on the Hub: owner/name.")]


@shelf.command(cls=DataCommand)
def add(
    folder: Folder,
    files: Annotated[list[Path], typer.Argument(help="Run files, or embeddings or scores to make them from.")],
    name: Names = None,
    training_data: TrainingData = None,
) -> None:
    """Put runs on a shelf, and write its index: shelf.json and README.md.

    Embeddings and scores are those of the test split. For other splits, similarities and labels make the run file with
    evaluate --keep-run first.

    Examples:
      cxc-eccv shelf add shelf clip.npz --training-data web
      cxc-eccv shelf add shelf clip.run.parquet --name "CLIP B/32"
    """
    from cxc_eccv.shelf import add_run

    if name and len(name) != len(files):
        raise InvalidOption(f"--name: {len(name)} names for {len(files)} files; give one for each")
    options: dict[str, Any] = {"training_data": names(training_data), "data_dir": open_library()}
    for place, file in enumerate(files):
        run = add_run(folder, file, name=name[place] if name else None, **options)
        say_written([folder / run.file])


@shelf.command("list", cls=Command)
def list_runs(folder: Folder) -> None:
    """List the runs of a shelf, what their models were trained on, and check their files.

    Example: cxc-eccv shelf list shelf
    """
    from cxc_eccv.shelf import list_table, read_shelf
    from cxc_eccv.tables import tables_to_console

    print_shown(tables_to_console([list_table(read_shelf(folder))]))


@shelf.command(cls=Command)
def pull(repo: Repo, folder: Folder) -> None:
    """Download the runs of a shelf on the Hub that a folder lacks.

    Example: cxc-eccv shelf pull org/runs shelf
    """
    from cxc_eccv.hub.client import Repository
    from cxc_eccv.shelf import pull_shelf

    pulled, runs = pull_shelf(folder, Repository(repo, "dataset"))
    say_written([folder / file for file in pulled])
    say(f"{folder} has {len(runs)} runs, {len(pulled)} of them new")


@shelf.command(cls=Command)
def push(
    folder: Folder,
    repo: Repo,
    yes: Annotated[bool, typer.Option("--yes", help="Upload. Without it nothing is sent.")] = False,
) -> None:
    """Upload a shelf to a dataset repository on the Hub, as cxc-eccv push does.

    Example: cxc-eccv shelf push shelf org/runs --yes
    """
    from cxc_eccv.cli.hub import send
    from cxc_eccv.shelf import read_shelf

    read_shelf(folder)
    send(folder, repo, yes=yes, private=None)


@shelf.command(cls=DataCommand)
def rescore(
    folder: Folder,
    labels: Labels = None,
    sources: Sources = None,
    tasks: Tasks = None,
    without: Without = None,
    baseline: Annotated[
        str | None, typer.Option(help="Model that the others are tested against. Default: the first by name.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for scores.csv, compare.json, and tables in Markdown, LaTeX and CSV.")
    ] = None,
) -> None:
    """Score all models of a shelf, with intervals and paired tests, under the labels of the tasks or other ones.

    It prints the main metric of each task. --output has all metrics, and the differences with intervals and p-values.

    Where a list ends above a new positive, the metrics that need its rank are left out, with the reason.

    Examples:
      cxc-eccv shelf rescore shelf
      cxc-eccv shelf rescore shelf --labels mine.parquet --sources coco,cxc,eccv,mine
      cxc-eccv shelf rescore shelf --tasks eccv_caption --without coco_val
    """
    from cxc_eccv.cli.compare import texts_of, write_comparison
    from cxc_eccv.comparison import compare
    from cxc_eccv.report.paper import paper_csv, paper_tables
    from cxc_eccv.shelf import main_tables
    from cxc_eccv.shelf import rescore as rescore_shelf
    from cxc_eccv.tables import tables_to_console

    check_folder(output)
    chosen = names(tasks)
    scored = rescore_shelf(
        folder,
        chosen or "all",
        sources=names(sources),
        data_dir=open_library(labels=labels or ()),
        without=names(without) or (),
    )
    by_name = {model.name: model for model in scored}
    if baseline is not None and baseline not in by_name:
        raise UnknownName("model on the shelf", baseline, by_name)
    first = by_name.pop(baseline or scored[0].name)
    comparison = compare(first, *by_name.values()) if by_name else None
    reports = {model.name: model.report for model in scored}
    written = []
    try:
        if output is not None:
            tables = paper_tables(reports, chosen, intervals=True)
            tables += [] if comparison is None else comparison.tables()
            texts = texts_of(comparison, (), (), (), tables) | {"scores.csv": paper_csv(reports, chosen)}
            written = write_comparison(texts, None, output)
    finally:
        of_all = [] if comparison is None else comparison.tables()[len(comparison.models) :]  # behind a table for each
        print_shown(tables_to_console([*main_tables(scored, comparison), *of_all]))
    _say_lacking(reports)
    say_written(written)


def _say_lacking(reports: Mapping[str, Report]) -> None:
    """Print the main metrics that a model lacks, with the reason, such as how deep its lists must be."""
    from cxc_eccv.registry import is_main
    from cxc_eccv.types.reported import group_by_reason

    for name, report in reports.items():
        lacking = {key: reason for key, reason in report.skipped.items() if key.count("/") > 1 and is_main(key)}
        for reason, keys in group_by_reason(lacking).items():
            say(f"{name} lacks {', '.join(keys)}: {reason}", err=True)
