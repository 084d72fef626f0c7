"""``cxc-eccv annotate``: the loop from disagreement of models to labels that people gave, in one folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.delivery import COMMAND, check_folder, say_written
from cxc_eccv.cli.named_models import load_runs
from cxc_eccv.cli.shared_options import (
    DATA,
    OF_ADVANCED,
    DataCommand,
    Group,
    Labels,
    Names,
    Thumbnails,
    names,
    open_library,
    split_name,
)
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.commands.annotate.sheets import (
    Folder,
    check,
    count_nouns,
    export,
    import_answers,
    name_some,
    open_project,
    say_export,
    say_next,
)
from cxc_eccv.terminal import say

if TYPE_CHECKING:
    from pyarrow import Table

    from cxc_eccv.sources.library import Library
    from cxc_eccv.sources.readers import LabelFile
    from cxc_eccv.studies.annotation.project import Project


def propose(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the project, new or existing. Its name becomes that of the labels.")
    ],
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="Embeddings, scores or rankings, one file per model. The strategy random needs none."),
    ] = None,
    name: Names = None,
    images: Annotated[Path | None, typer.Option(help="Folder with the images, for a classifier of images.")] = None,
    labels: Labels = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(help="Sources of known labels, about which nobody is asked. Default: all labels by people."),
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEME",
            help="Question to people: eccv, cxc or entailment; cxc_images or cxc_captions for pairs of two images or "
            "two captions. Default: eccv.",
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="train|val|test", help="Split of the pairs. Default: test.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="STRATEGY",
            help="eccv, cxc or entailment, as in the papers; disagreement; active; or random. "
            "Default: eccv; active with --number; cxc for pairs of two images or two captions.",
        ),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Most candidates. Default: all that are proposed.")] = None,
    depth: Annotated[
        int | None,
        typer.Option(
            help="Top items of a list that are proposed. Default: the strategy's.", rich_help_panel=OF_ADVANCED
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            help="Number of queries to draw: images and captions, as 500,500, or one for both.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Only this many images, the first by id, and their captions: a first try.", rich_help_panel=OF_ADVANCED
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            help="For active: a file (.parquet, .csv, .jsonl) with image_id, caption_id and "
            "probability; or a classifier of entailment, by its id or folder."
        ),
    ] = None,
    number: Annotated[
        str | None, typer.Option(help="For active: the number to estimate, such as coco_5k/t2i/recall_at_1.")
    ] = None,
    size: Annotated[
        int, typer.Option(help="Candidates on a sheet, beside two known pairs.", rich_help_panel=OF_ADVANCED)
    ] = 18,
    ask_known: Annotated[
        bool,
        typer.Option(
            "--ask-known", help="Also ask about pairs that sources call positive.", rich_help_panel=OF_ADVANCED
        ),
    ] = False,
    without_reasons: Annotated[
        bool,
        typer.Option("--without-reasons", help="Do not ask why a match is not complete.", rich_help_panel=OF_ADVANCED),
    ] = False,
    leave_open: Annotated[
        bool,
        typer.Option(
            "--leave-open",
            help="Continue although sheets of the last round have no answer.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of all draws. Default: 0.", rich_help_panel=OF_ADVANCED)
    ] = None,
) -> None:
    r"""Propose pairs to ask people about, in sheets that also hold known pairs: the first round, or the next one.

    Examples:
    ```sh
    cxc-eccv annotate propose doubts clip.npz siglip.npz --budget 900
    cxc-eccv annotate propose doubts clip.npz --scheme entailment --split val
    cxc-eccv annotate propose recall clip.npz --number coco_5k/t2i/recall_at_1 \
      --budget 500 --judge judge.jsonl
    ```

    The first round creates the project with its scheme, split and seed, which cannot change. A pair of an earlier round
    is not asked again, unless all answers to its sheet were rejected. Pairs that are known to match are set apart;
    --ask-known asks about them too, which is needed to measure the precision of COCO's and CxC's labels.
    """
    from cxc_eccv.cli.user_tables import load_judge
    from cxc_eccv.studies.annotation.proposing import ProposalOptions

    runs = load_runs(models or (), name)
    project = _open_or_create(
        folder, open_library(labels=labels or ()), scheme, None if split is None else split_name(split), seed
    )
    options = ProposalOptions(
        strategy=strategy or (None if number is None else "active"),
        budget=budget,
        depth=depth,
        queries=None if queries is None else _read_queries(queries),
        limit=limit,
        sources=names(sources),
        judge=None if judge is None else load_judge(judge, images),
        number=number,
        ask_known=ask_known,
    )
    after = project.propose(runs, options, size=size, leave_open=leave_open, without_reasons=without_reasons)
    last = after.rounds[-1]
    pairs = count_nouns(last.candidates.num_rows, "pair")
    sheets = count_nouns(len(last.sheets), "sheet")
    say(f"round {last.number} of {folder}: {pairs} in {sheets}")
    if last.known.num_rows or not ask_known:
        say(f"{last.known.num_rows:,} proposed pairs are known to match, so nobody is asked about them")
    for name_of_labels in after.find_changed_labels():
        say(
            f"the labels {name_of_labels} changed or were left out since round {last.number - 1}, so its people "
            "were asked with other known pairs"
        )
    say_export(after)


def _open_or_create(folder: Path, library: Library, scheme: str | None, split: str | None, seed: int | None) -> Project:
    """The project in a folder, which must have these options; or a new one with them."""
    from cxc_eccv.studies.annotation.project import Project
    from cxc_eccv.studies.annotation.project_files import ROUNDS

    if not (folder / ROUNDS).exists():
        name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
        return Project.create(folder, library, name, scheme=scheme or "eccv", split=split or "test", seed=seed or 0)
    project = Project.open(folder, library)
    facts = project.facts
    options = {"scheme": (scheme, facts.scheme), "split": (split, facts.split), "seed": (seed, facts.seed)}
    for option, (value, fixed) in options.items():
        if value not in (None, fixed):
            raise InvalidOption(
                f"--{option} {value}: {folder} has {fixed}, which cannot change. Leave it out, or name another folder"
            )
    return project


def _read_queries(text: str) -> tuple[int, int]:
    """How many images and how many captions are queries."""
    numbers = re.fullmatch(r"(\d{1,9})(?:,(\d{1,9}))?", text)
    if numbers is None:
        raise InvalidOption(f"--queries {text}: give how many images and how many captions, as 500,500, or one number")
    return int(numbers[1]), int(numbers[2] or numbers[1])


def merge(
    folder: Folder,
    rule: Annotated[
        str | None,
        typer.Option(
            help="Rule from answers to a label: majority or mean. Default: mean for ratings on a scale, else majority."
        ),
    ] = None,
    least_answers: Annotated[
        int | None, typer.Option(help="Fewest answers that a pair needs for a label. Default: 1.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Version of the labels. Default: 1.0.0.")] = None,
    licence: Annotated[
        str | None, typer.Option("--license", help="License of the labels, by the Hub's id, such as cc-by-4.0.")
    ] = None,
    citation: Annotated[Path | None, typer.Option(help="File with the BibTeX of the labels, for the card.")] = None,
) -> None:
    """Turn answers into labels: labels.parquet, which --labels reads, and its card README.md.

    Examples:
    ```sh
    cxc-eccv annotate merge doubts
    cxc-eccv annotate merge doubts --least-answers 3 --version 1.1.0
    cxc-eccv annotate merge doubts --license cc-by-4.0
    ```

    Rejected sheets and sheets that are still to be checked do not count. Options that you leave out
    keep their last values. The datasets library can load the folder, and cxc-eccv push uploads it. Pairs of two images
    or two captions become ratings.csv, in the layout of CxC.
    """
    from cxc_eccv.sources.reading import read_text
    from cxc_eccv.studies.annotation.merging import merge_labels, write_ratings
    from cxc_eccv.studies.annotation.project import CARD, LABELS
    from cxc_eccv.studies.annotation.project_files import Terms
    from cxc_eccv.studies.annotation.source_labels import compare_labels

    project = open_project(folder)
    if project.scheme.sides != ("image", "caption"):
        say_written([write_ratings(project, least_answers)])
        return
    text = None if citation is None else read_text(citation)
    terms = Terms(version=version, rule=rule, least_answers=least_answers, licence=licence, citation=text)
    labels = merge_labels(project, terms)
    say_written([folder / LABELS, folder / CARD])
    facts = {name: labels.facts.get(name) for name in ("version", "licence", "rule", "least_answers")}
    say("version {version}, license {licence}, rule {rule}, fewest answers to a pair {least_answers}".format(**facts))
    if facts["licence"] is None:
        say("the card has no license: add one with --license before others use the labels")
    _say_compared(labels, compare_labels(labels, project.library))
    command = ["cxc-eccv", "evaluate", "MODEL", "--labels", str(folder)]
    command += ["--sources", ",".join([*labels.facts["sources"], labels.name])]
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
    output: Annotated[
        Path | None, typer.Option(help="Folder for annotation_report.json and .html, with every worker and sheet.")
    ] = None,
    images: Thumbnails = None,
) -> None:
    r"""Report how good the answers are, what people answered about each model's pairs, and what the labels change.

    Examples:
    ```sh
    cxc-eccv annotate report doubts
    cxc-eccv annotate report doubts clip.npz siglip.npz --output changes
    cxc-eccv annotate report doubts clip.npz --sources coco \
      --tasks eccv_caption
    ```

    Shows sheets and their problems, time, workers, agreement (Cohen, Falotico and Quatto, Krippendorff), and
    answers and shortcomings by model and rank. With models and merged labels it shows every metric before and after the
    new labels, with intervals of a paired bootstrap over images.
    """
    from cxc_eccv.evaluation import Request
    from cxc_eccv.judgments.evidence.source import judging_sources
    from cxc_eccv.studies.annotation.annotation_report import report_project, write_annotated
    from cxc_eccv.studies.annotation.changes import METRICS, TASKS, measure_changes
    from cxc_eccv.studies.annotation.project import LABELS

    check_folder(output, images=images)
    merged = (folder / LABELS).is_file()
    project = open_project(folder, [str(folder / LABELS)] if merged else [])
    changes = None
    if models and merged:
        request = Request(
            tasks=names(tasks) or TASKS,
            metrics=names(metrics) or METRICS,
            split=project.facts.split,
            sources=names(sources) or judging_sources(project.split),
        )
        changes = measure_changes(load_runs(models, name), project.library, request, [project.name])
    report = report_project(project, changes, command=COMMAND.get())
    try:
        written = [] if output is None else write_annotated(output, report, images)
    finally:
        report.show()
    say_written(written)


COMMANDS = {"annotate": Group.EXTEND_LABELS}

annotate = typer.Typer(no_args_is_help=True, help="Extend the labels: models propose pairs, people judge them.")
annotate.command(cls=DataCommand)(propose)
annotate.command(cls=DataCommand)(export)
annotate.command("import", cls=DataCommand)(import_answers)
for command in (check, merge, report):
    annotate.command(cls=DataCommand)(command)
