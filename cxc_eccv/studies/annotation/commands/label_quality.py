"""``cxc-eccv label-quality``: the quality of sets of labels, and the bias of the models that proposed them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.delivery import add_command, check_folder, say_written
from cxc_eccv.cli.named_models import load_runs
from cxc_eccv.cli.shared_options import OF_ADVANCED, Group, Labels, Names, Similarity, names, open_library, split_name
from cxc_eccv.writing import write_texts

if TYPE_CHECKING:
    from cxc_eccv.studies.annotation.label_quality.appraisal_tables import Appraisal

COMMANDS = {"label_quality": Group.EXTEND_LABELS}

FILES = ("labels.json", "labels.html")


def label_quality(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Embeddings, scores or rankings, one file per model: for bias and diversity."),
    ] = None,
    name: Names = None,
    similarity: Similarity = None,
    labels: Labels = None,
    project: Annotated[
        Path | None, typer.Option(help="Annotation project: its labels, and the models that proposed them.")
    ] = None,
    preferences: Annotated[
        Path | None,
        typer.Option(
            help="CSV of choices between systems: columns winner and loser, perhaps count.", rich_help_panel=OF_ADVANCED
        ),
    ] = None,
    split: Annotated[str, typer.Option(metavar="val|test", help="Split whose labels are measured.")] = "test",
    sources: Annotated[
        list[str] | None,
        typer.Option(
            help="Set of labels: sources, comma-separated. Repeat for further sets. plausible_K are plausible matches "
            "that differ in up to K categories. Default: each source, and all of them together."
        ),
    ] = None,
    verified: Annotated[
        list[str] | None,
        typer.Option(
            help="Sources whose labels count as verified by people, comma-separated. Default: your own labels, else "
            "cxc and eccv.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            help="Source whose queries are counted and measured, or all. Default: eccv for counts, else all.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for labels.json and labels.html.")] = None,
) -> None:
    r"""Measure how correct and how complete labels are.

    Examples:
    ```sh
    cxc-eccv label-quality --output quality
    cxc-eccv label-quality --labels matches.csv --split val
    cxc-eccv label-quality clip.npz vilt.npz pcme.npz --project doubts \
      --output quality
    ```

    Precision and recall are measured on pairs that people were asked about: your own labels, or CxC's ratings. ECCV
    Caption publishes only the pairs that people confirmed, so it gives recall only.

    With the files of two or more models it shows how alike they rank; with a project also what each model gains when
    people verify its own proposals. Choices between systems become strengths of the Bradley-Terry model.
    """
    from cxc_eccv.studies.annotation.label_quality.appraisal import AppraisalRequest, appraise
    from cxc_eccv.studies.annotation.label_quality.preferences import rate_preferences, read_preferences
    from cxc_eccv.studies.annotation.project import LABELS, Project

    check_folder(output, FILES)
    rated = () if preferences is None else rate_preferences(*read_preferences(preferences))
    files_of_labels = [*(labels or ()), *([] if project is None else [project / LABELS])]
    library = open_library(labels=files_of_labels)
    request = AppraisalRequest(
        split=split_name(split),
        sets=None if not sources else [[name for name in text.split(",") if name] for text in sources],
        verified=names(verified),
        queries=queries,
        runs=load_runs(files or [], name),
        project=None if project is None else Project.open(project, library),
        similarity=similarity,
        preferences=rated,
    )
    appraisal = appraise(library, request)
    try:
        written = [] if output is None else _write(add_command(appraisal), output)
    finally:
        appraisal.show()
    say_written(written)


def _write(appraisal: Appraisal, folder: Path) -> list[Path]:
    texts = appraisal.to_json(), appraisal.to_html()
    return write_texts(folder, dict(zip(FILES, texts, strict=True)), recorded=True)
