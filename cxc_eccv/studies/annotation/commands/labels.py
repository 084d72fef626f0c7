"""``cxc-eccv labels``: what sets of labels are worth, and what the models that proposed them made of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import Labels, names, open_library, split_name
from cxc_eccv.cli.extras import load_runs
from cxc_eccv.cli.output import COMMAND, check_output, say_written
from cxc_eccv.terminal import print_shown, say
from cxc_eccv.writing import replaced_folder

if TYPE_CHECKING:
    from cxc_eccv.studies.annotation.worth.appraisal import Appraisal

FILES = ("labels.json", "labels.md", "labels.html")


def labels(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Embeddings, scores or rankings as of evaluate, a file per model: for bias and diversity."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for labels.json, labels.md and labels.html.")] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            help="A set of labels: sources, comma-separated; repeat for further sets. plausible_0 are plausible "
            "matches, 0 the categories that may differ. Default: each source alone, and what they say together."
        ),
    ] = None,
    labels: Labels = None,
    project: Annotated[
        Path | None, typer.Option(help="An annotation project: its labels, and whose proposals they are.")
    ] = None,
    verified: Annotated[
        list[str] | None,
        typer.Option(
            help="Sources whose verdicts count as people's, comma-separated. Default: your own labels, else cxc and "
            "eccv."
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(help="The source whose queries are counted, or all. Default: eccv where it has any, else all."),
    ] = None,
    preferences: Annotated[
        Path | None,
        typer.Option(help="CSV of choices between systems: columns winner and loser, or a table of counts."),
    ] = None,
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    name: Annotated[
        list[str] | None,
        typer.Option(help="What the models are called, one per file. Default: what the file says, else its name."),
    ] = None,
    direction: Annotated[str | None, typer.Option(help="Of a rankings file that does not say it: i2t or t2i.")] = None,
    similarity: Annotated[
        str | None, typer.Option(help="Of embeddings: cosine or dot. Default: what the file says, else cosine.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap behind intervals.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
) -> None:
    """Say what sets of labels are worth: how many positives they have, how right and how complete they are.

    Precision and recall are against pairs that people were asked about: your own labels, or CxC's ratings. Of ECCV
    Caption only what was verified is published, not what people turned down, so that it gives recall alone.

    With the files of two models or more it says how alike these rank; with a project beside them also what each model
    gains where people verify its own proposals. Choices between systems become strengths of the Bradley-Terry model.

    Examples:
      cxc-eccv labels --output worth
      cxc-eccv labels --sources coco --sources coco,cxc --sources plausible_1
      cxc-eccv labels --labels mine.parquet --split val
      cxc-eccv labels clip.npz vilt.npz pcme.npz --project doubts --output worth
      cxc-eccv labels --preferences choices.csv
    """
    from cxc_eccv.studies.annotation.project import Project
    from cxc_eccv.studies.annotation.worth.appraisal import appraise
    from cxc_eccv.studies.annotation.worth.preferences import rate_preferences, read_preferences
    from cxc_eccv.studies.annotation.worth.tables import appraisal_to_tables, say_lacking
    from cxc_eccv.tables import tables_to_console

    check_output(output, FILES)
    options: dict[str, Any] = {"seed": seed, "confidence": confidence}
    rated = () if preferences is None else rate_preferences(*read_preferences(preferences), **options)
    files_of_labels = [*(labels or ()), *([] if project is None else [project])]
    library = open_library(labels=files_of_labels)
    found = appraise(
        library,
        split_name(split),
        sets=None if not sources else [[name for name in text.split(",") if name] for text in sources],
        verified=names(verified),
        queries=queries,
        runs=load_runs(files or [], direction, name),
        project=None if project is None else Project.open(project, library),
        similarity=similarity,
        preferences=rated,
        **options,
    )
    try:
        written = [] if output is None else _write(output, found)
    finally:
        tables = [table for section in appraisal_to_tables(found).values() for table in section]
        print_shown(tables_to_console(tables))
        for reason in say_lacking(found):
            say(reason)
    say_written(written)


def _write(output: Path, found: Appraisal) -> list[Path]:
    """Write the numbers, the tables and the page, all or nothing; other files are kept."""
    from cxc_eccv.studies.annotation.pages.labels import render_labels
    from cxc_eccv.studies.annotation.worth.tables import appraisal_to_json, appraisal_to_tables, say_lacking
    from cxc_eccv.tables import tables_to_markdown

    tables = [table for section in appraisal_to_tables(found).values() for table in section]
    texts = {
        "labels.json": appraisal_to_json(found, command=COMMAND.get()),
        "labels.md": "\n\n".join([tables_to_markdown(tables).rstrip(), *say_lacking(found)]) + "\n",
        "labels.html": render_labels(found, COMMAND.get()),
    }
    with replaced_folder(output, FILES) as folder:
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8", newline="\n")
    return [output / file for file in FILES]
