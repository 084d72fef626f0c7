"""``cxc-eccv shelf``: a folder of run files, whose models are scored again under any labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.choices import (
    Confidence,
    Labels,
    Names,
    Similarity,
    Sources,
    Tasks,
    TrainingData,
    Without,
    names,
    open_library,
    split_name,
)
from cxc_eccv.cli.help import Command, DataCommand
from cxc_eccv.cli.output import check_output, say_written
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.terminal import print_shown, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cxc_eccv.types import Report

shelf = typer.Typer(no_args_is_help=True, help="Keep what models ranked, and score them again under any labels.")

Folder = Annotated[Path, typer.Argument(help="Folder of the shelf.")]
Repo = Annotated[str, typer.Argument(help="Dataset repository on the Hub: owner/name.")]


@shelf.command(cls=DataCommand)
def add(
    folder: Folder,
    files: Annotated[list[Path], typer.Argument(help="Run files, or embeddings or scores to make them from.")],
    name: Names = None,
    training_data: TrainingData = None,
    split: Annotated[str, typer.Option(help="Split of embeddings or scores: val or test.")] = "test",
    similarity: Similarity = None,
    labels: Labels = None,
) -> None:
    """Put runs on a shelf, and write its index: shelf.json and README.md.

    A run file keeps the top 200 of every list and the exact ranks of all known positives, those of --labels too. It has
    about 25 MB for the test split.

    Examples:
      cxc-eccv shelf add shelf clip.npz --training-data web
      cxc-eccv shelf add shelf clip.run.parquet --name "CLIP B/32"
    """
    from cxc_eccv.shelf import add_run

    if name and len(name) != len(files):
        raise InvalidOption(f"--name: {len(name)} names for {len(files)} files; give one for each")
    options = {"split": split_name(split), "similarity": similarity, "data_dir": open_library(labels=labels or ())}
    for place, file in enumerate(files):
        title = name[place] if name else None
        say_written([folder / add_run(folder, file, name=title, training_data=names(training_data), **options).file])


@shelf.command("list", cls=Command)
def list_runs(folder: Folder, without: Without = None) -> None:
    """List the runs of a shelf, what their models were trained on, and check their files.

    Example: cxc-eccv shelf list shelf --without coco_val
    """
    from cxc_eccv.shelf import list_table, read_shelf
    from cxc_eccv.tables import tables_to_console

    left_out = set(names(without) or ())
    runs = [run for run in read_shelf(folder) if not left_out & set(run.training_data)]
    print_shown(tables_to_console([list_table(runs)]))


@shelf.command(cls=Command)
def pull(repo: Repo, folder: Folder) -> None:
    """Download the runs of a shelf on the Hub that a folder lacks.

    Example: cxc-eccv shelf pull owner/name shelf
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
    private: Annotated[bool | None, typer.Option(help="Visibility of a new repository. Default: the owner's.")] = None,
) -> None:
    """Upload a shelf to a dataset repository on the Hub, as cxc-eccv push does.

    Example: cxc-eccv shelf push shelf owner/name --yes
    """
    from cxc_eccv.cli.push import send
    from cxc_eccv.shelf import read_shelf

    read_shelf(folder)
    send(folder, repo, yes=yes, private=private)


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
    confidence: Confidence = 0.95,
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
    from cxc_eccv.cli.compare import texts_of, write_texts
    from cxc_eccv.comparison import compare
    from cxc_eccv.report.paper import paper_csv, paper_tables
    from cxc_eccv.shelf import main_tables
    from cxc_eccv.shelf import rescore as rescore_shelf
    from cxc_eccv.tables import tables_to_console

    check_output(output)
    chosen = names(tasks)
    scored = rescore_shelf(
        folder,
        chosen or "all",
        sources=names(sources),
        data_dir=open_library(labels=labels or ()),
        without=names(without) or (),
        confidence=confidence,
    )
    by_name = {model.name: model for model in scored}
    if baseline is not None and baseline not in by_name:
        raise UnknownName("model on the shelf", baseline, by_name)
    first = by_name.pop(baseline or scored[0].name)
    comparison = compare(first, *by_name.values(), confidence=confidence) if by_name else None
    reports = {model.name: model.report for model in scored}
    written = []
    try:
        if output is not None:
            tables = paper_tables(reports, chosen, intervals=True)
            tables += [] if comparison is None else comparison.tables()
            texts = texts_of(comparison, (), (), (), tables) | {"scores.csv": paper_csv(reports, chosen)}
            written = write_texts(texts, None, output)
    finally:
        print_shown(tables_to_console(main_tables(scored, comparison)))
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
