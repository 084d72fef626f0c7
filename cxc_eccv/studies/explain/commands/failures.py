"""``cxc-eccv failures``: failures that people rate, laid out and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir
from cxc_eccv.cli.help import Command
from cxc_eccv.cli.output import say_written
from cxc_eccv.terminal import print_shown, say

failures = typer.Typer(no_args_is_help=True, help="Have people rate failures. Which of CA, NCS, CE and SD agrees?")


@failures.command("export", cls=Command)
def export(
    explained: Annotated[Path, typer.Argument(help="Folder that explain --output wrote.")],
    output: Annotated[Path, typer.Option(help="File (.csv, .jsonl) to write, for people to fill in.")],
    sample: Annotated[int, typer.Option(help="Failures, drawn at random.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Write failures for people to rate: the query, the right image and the retrieved one, and empty answers.

    Each rater gets a copy and fills in three fields of every row. rater: a name. classes: what the retrieved image gets
    wrong of the query, out of object class, colour, enumeration, size, action and detail, divided by semicolons; or
    alternatives alone, where it serves as well. rating: from 1 to 10, how well it stands in for the right image.

    Examples:
      cxc-eccv failures export explained --output failures.csv
      cxc-eccv failures export explained --output failures.jsonl --sample 20
    """
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.explain.ratings import CLASSES, export_failures, read_failures

    table, split = read_failures(explained)
    library = Library(data_dir, allow_modified=allow_modified)
    say_written([export_failures(table, output, library, split, sample=sample, seed=seed)])
    say(f"classes to choose from: {', '.join(CLASSES)}")
    say(f"when every row has rater, classes and rating: cxc-eccv failures ratings {output} --explained {explained}")


@failures.command("ratings", cls=Command)
def ratings(
    files: Annotated[list[Path], typer.Argument(help="Answered files of failures export: all of them together.")],
    explained: Annotated[Path, typer.Option(help="Folder of the failures that were exported.")],
    output: Annotated[Path | None, typer.Option(help="File (.json) to keep the numbers in.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the intervals' bootstrap.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Count what people marked, and say which of CA, NCS, CE and SD agrees with their ratings.

    Shares of the classes, classes marked together with association rules, and the rank correlation of every number
    with the mean rating of a failure. Rows that are not as they were exported, or not answered, are refused, with
    their place and what to do.

    Examples:
      cxc-eccv failures ratings ann.csv ben.csv --explained explained
      cxc-eccv failures ratings failures.jsonl --explained explained
      --output ratings.json
    """
    from cxc_eccv.evaluation.report import provenance_of
    from cxc_eccv.sources.library import Library
    from cxc_eccv.sources.reading import sha256_of
    from cxc_eccv.studies.explain.ratings import read_failures, read_ratings, report_ratings
    from cxc_eccv.tables import tables_to_console
    from cxc_eccv.writing import refuse_unwritable

    if output is not None:
        refuse_unwritable(output, file=True)
    table, split = read_failures(explained)
    library = Library(data_dir, allow_modified=allow_modified)
    rated = read_ratings(files, table, library, split)
    hashes = {path.name: sha256_of(path) for path in (*files, explained / "failures.parquet")}
    facts = provenance_of(library, split=split, files=hashes)
    report = report_ratings(rated, table, seed=seed, confidence=confidence, provenance=facts)
    try:
        written = [] if output is None else [report.save(output)]
    finally:
        print_shown(tables_to_console(report.tables()))
    say_written(written)
