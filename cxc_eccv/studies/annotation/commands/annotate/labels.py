"""``cxc-eccv annotate merge`` and ``report``: answers become labels; how good they are, and what the labels change."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import DATA, Confidence, Names, Thumbnails, load_runs, names
from cxc_eccv.cli.output import COMMAND, check_folder, say_written
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.commands.annotate.telling import (
    Folder,
    name_some,
    open_project,
    say_next,
)
from cxc_eccv.terminal import print_shown, say

if TYPE_CHECKING:
    from pyarrow import Table

    from cxc_eccv.sources.readers import LabelFile


def merge(
    folder: Folder,
    rule: Annotated[
        str | None,
        typer.Option(
            help="Rule from answers to a label: majority, all, mean or dawid_skene. Default: mean for ratings on a "
            "scale, else majority."
        ),
    ] = None,
    least_answers: Annotated[int, typer.Option(help="Fewest answers that a pair needs for a label.")] = 1,
    version: Annotated[str, typer.Option(help="Version of the labels.")] = "1.0.0",
    licence: Annotated[
        str | None, typer.Option("--license", help="License of the labels, by the Hub's id, such as cc-by-4.0.")
    ] = None,
    citation: Annotated[Path | None, typer.Option(help="File with the BibTeX of the labels, for the card.")] = None,
    probabilities: Annotated[
        Path | None,
        typer.Option(
            help="File (.parquet, .csv, .jsonl) of a judge's image_id, caption_id and probability: they become the "
            "config mixed, beside people's labels, and the card says how good they are."
        ),
    ] = None,
) -> None:
    """Turn answers into labels: labels.parquet, which --labels reads, and its card README.md.

    Rejected sheets and sheets that are still to be checked do not count. The datasets library can load the folder, and
    cxc-eccv push uploads it. Pairs of two images or two captions become ratings.csv, in the layout of CxC.

    Examples:
      cxc-eccv annotate merge doubts
      cxc-eccv annotate merge doubts --rule dawid_skene --version 1.1.0
      cxc-eccv annotate merge doubts --license cc-by-4.0
      cxc-eccv annotate merge doubts --probabilities judge.parquet
    """
    from cxc_eccv.cli.user_tables import read_probabilities
    from cxc_eccv.sources.readers import MIXED
    from cxc_eccv.sources.reading import read_text
    from cxc_eccv.studies.annotation.known import compare_labels, judging_sources
    from cxc_eccv.studies.annotation.project import CARD, LABELS

    project = open_project(folder)
    judged = None if probabilities is None else read_probabilities(probabilities)
    if project.scheme.sides != ("image", "caption"):
        if judged is not None:
            raise InvalidOption("--probabilities are of an image and a caption; this project rates other pairs")
        say_written([project.write_ratings(least_answers=least_answers)])
        return
    files = [folder / LABELS, folder / CARD, *([] if judged is None else [folder / MIXED])]
    before = _read_all(files)
    labels = project.merge(
        rule=rule,
        version=version,
        least_answers=least_answers,
        licence=licence,
        citation=None if citation is None else read_text(citation),
        probabilities=judged,
    )
    if _read_all(files) == before:
        say(f"nothing has changed: {folder / LABELS} holds the labels of these answers")
    else:
        say_written(files)
    if licence is None:
        say("the card has no license: add one with --license before others use the labels")
    _say_compared(labels, compare_labels(labels, project.library))
    command = ["cxc-eccv", "evaluate", "MODEL", "--labels", str(folder)]
    command += ["--sources", ",".join([*judging_sources(project.library, labels.split), labels.name])]
    if labels.split != "test":
        command += ["--split", labels.split]
    say(f"use them: {shlex.join(command + DATA.get().to_arguments())}")
    say_next("report", folder, "MODEL")


def _say_compared(labels: LabelFile, compared: Table) -> None:
    """What is new, and what contradicts official sources."""
    positive = int(labels.table["positive"].to_numpy().sum())
    rows = compared.to_pylist()
    confirmed = {(row["image_id"], row["caption_id"]) for row in rows if row["positive"] and row["source_positive"]}
    say(f"{labels.table.num_rows:,} pairs have a label, {positive:,} of them positive")
    lacking = labels.facts["counts"]["pairs"] - labels.table.num_rows
    if lacking:
        say(f"{lacking:,} answered pairs have no label: their sheets are not accepted, or too few people answered")
    say(f"{positive - len(confirmed):,} positives are new: they are in no official source")
    against = [row for row in rows if row["positive"] != row["source_positive"]]
    for source in dict.fromkeys(row["source"] for row in against):
        pairs = [row for row in against if row["source"] == source]
        named = (f"image {row['image_id']} with caption {row['caption_id']}" for row in pairs)
        say(f"{source} contradicts {len(pairs):,}: {name_some(named)}")
    if not against:
        say("no official source contradicts a label")


def _read_all(files: Iterable[Path]) -> list[bytes | None]:
    return [file.read_bytes() if file.is_file() else None for file in files]


def report(
    folder: Folder,
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="Embeddings, scores or rankings, one file per model, to show what the labels change."),
    ] = None,
    name: Names = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(help="Sources of the labels before the new ones. Default: all official ones of the split."),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option(help="Tasks whose queries and galleries are used. Default: coco_5k, all of the split."),
    ] = None,
    metrics: Annotated[
        list[str] | None, typer.Option(help="Metrics. Default: recall_at_1, r_precision and map_at_r.")
    ] = None,
    confidence: Confidence = 0.95,
    output: Annotated[
        Path | None, typer.Option(help="Folder for annotation_report.json, .md and .html, with every worker and sheet.")
    ] = None,
    images: Thumbnails = None,
) -> None:
    """Report how good the answers are, what people answered about each model's pairs, and what the labels change.

    Shows sheets and their problems, time, workers, agreement (Cohen, Fleiss, Falotico and Quatto, Krippendorff), and
    answers and shortcomings by model and rank. With models and merged labels it shows every metric before and after the
    new labels, with intervals of a paired bootstrap over images, and which models change places.

    Examples:
      cxc-eccv annotate report doubts
      cxc-eccv annotate report doubts clip.npz siglip.npz --output report
      cxc-eccv annotate report doubts clip.npz --sources coco
      --tasks eccv_caption
    """
    from cxc_eccv.studies.annotation.known import judging_sources
    from cxc_eccv.studies.annotation.labelling.changes import METRICS, TASKS, measure_changes
    from cxc_eccv.studies.annotation.page import write_annotated
    from cxc_eccv.studies.annotation.project import LABELS
    from cxc_eccv.studies.annotation.report import report_project
    from cxc_eccv.tables import tables_to_console

    check_folder(output, images=images)
    merged = (folder / LABELS).is_file()
    project = open_project(folder, [str(folder / LABELS)] if merged else [])
    changes: Any = None
    if models and merged:
        runs = load_runs(models, name)
        before = names(sources) or judging_sources(project.library, project.split)
        changes = measure_changes(
            runs,
            project.library,
            project.split,
            before=before,
            after=[*before, project.name],
            tasks=names(tasks) or TASKS,
            metrics=names(metrics) or METRICS,
            confidence=confidence,
        )
    report = report_project(project, changes, command=COMMAND.get())
    try:
        written = [] if output is None else write_annotated(output, report, images)
    finally:
        print_shown(tables_to_console(report.tables()))
    say_written(written)
