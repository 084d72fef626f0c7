"""``cxc-eccv annotate report``: how good the answers are, and what the labels change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir, names
from cxc_eccv.cli.output import COMMAND, check_output, say_written
from cxc_eccv.cli.runs import load_runs
from cxc_eccv.studies.annotation.commands.annotate.telling import Folder
from cxc_eccv.terminal import print_shown


def report(
    folder: Folder,
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="Embeddings, scores or rankings, a file per model, to see what the labels change."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for annotation_report.json, .md and .html, with every worker and sheet.")
    ] = None,
    sources: Annotated[
        list[str] | None, typer.Option(help="Of labels before the new ones. Default: all official ones of the split.")
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option(help="Whose queries and galleries are taken. Default: coco_5k, all of the split."),
    ] = None,
    metrics: Annotated[list[str] | None, typer.Option(help="Default: recall_at_1, r_precision and map_at_r.")] = None,
    model_name: Annotated[
        list[str] | None,
        typer.Option(help="What the models are called, one per file. Default: what the file says, else its name."),
    ] = None,
    direction: Annotated[str | None, typer.Option(help="Of a rankings file that does not say it: i2t or t2i.")] = None,
    samples: Annotated[int, typer.Option(help="Bootstrap samples behind the intervals.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Say how good the answers are, what people said of each model's pairs, and what the labels change for models.

    Sheets and what speaks against them, time, workers, agreement (Cohen, Fleiss, Falotico and Quatto, Krippendorff),
    answers and shortcomings by model and rank. With models and merged labels: every metric on the labels before and
    after, with intervals of a paired bootstrap over images, and who changes places.

    Examples:
      cxc-eccv annotate report doubts
      cxc-eccv annotate report doubts clip.npz siglip.npz --output report
      cxc-eccv annotate report doubts clip.npz --sources coco
      --tasks eccv_caption
    """
    from cxc_eccv.judgments.evidence import Thresholds, gather, official_sources
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.annotation.labelling.changes import METRICS, TASKS, measure_changes
    from cxc_eccv.studies.annotation.pages.annotated import write_annotated
    from cxc_eccv.studies.annotation.project import LABELS, Project
    from cxc_eccv.studies.annotation.report import report_project
    from cxc_eccv.tables import tables_to_console

    check_output(output)
    merged = (folder / LABELS).is_file()
    library = Library(data_dir, allow_modified=allow_modified, labels=[str(folder / LABELS)] if merged else [])
    project = Project.open(folder, library)
    changes: Any = None
    if models and merged:
        runs = load_runs(models, direction, model_name, "--model-name")
        judging = [name for name in official_sources() if gather(library, project.split, "i2t", name, Thresholds())]
        before = names(sources) or judging
        changes = measure_changes(
            runs,
            library,
            project.split,
            before=before,
            after=[*before, project.name],
            tasks=names(tasks) or TASKS,
            metrics=names(metrics) or METRICS,
            seed=seed,
            samples=samples,
            confidence=confidence,
        )
    found = report_project(project, changes, command=COMMAND.get())
    try:
        written = [] if output is None else write_annotated(output, found)
    finally:
        print_shown(tables_to_console(found.tables()))
    say_written(written)
