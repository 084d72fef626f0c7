"""``cxc-eccv annotate propose``: the project, and its next round."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import Labels, Names, load_runs, names, open_library, split_name
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.commands.annotate.telling import count_nouns, say_export
from cxc_eccv.terminal import say

if TYPE_CHECKING:
    from cxc_eccv.sources.library import Library
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
            help="Question to people: eccv, cxc or entailment; cxc_images or cxc_captions for pairs of two images or "
            "two captions. Default: eccv."
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test. Default: test.")] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="eccv, cxc or entailment, as in the papers; disagreement, bounds, uncertainty; active; or random. "
            "Default: eccv; active with --for task/direction/metric; cxc for pairs of two images or two captions."
        ),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Most candidates. Default: all that are proposed.")] = None,
    depth: Annotated[
        int | None, typer.Option(help="Top items of a list that are proposed. Default: the strategy's.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="Number of queries to draw: images and captions, as 500,500, or one for both.")
    ] = None,
    probabilities: Annotated[
        str | None,
        typer.Option(
            help="For uncertainty and active: a file (.parquet, .csv, .jsonl) with image_id, caption_id and "
            "probability; or a classifier of entailment, by its id or folder."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="For uncertainty: probability of largest doubt. Default: the classifier's, else 0.5."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            "--for",
            help="For bounds: metric that a label shall change most. For active: the number to estimate, such as "
            "coco_5k/t2i/recall_at_1.",
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Candidates on a sheet, beside two known pairs.")] = 18,
    ask_known: Annotated[
        bool, typer.Option("--ask-known", help="Also ask about pairs that sources call positive.")
    ] = False,
    without_reasons: Annotated[
        bool, typer.Option("--without-reasons", help="Do not ask why a match is not complete.")
    ] = False,
    leave_open: Annotated[
        bool, typer.Option("--leave-open", help="Continue although sheets of the last round have no answer.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of all draws. Default: 0.")] = None,
) -> None:
    """Propose pairs to ask people about, in sheets that also hold known pairs: the first round, or the next one.

    The first round creates the project with its scheme, split and seed, which cannot change. A pair of an earlier round
    is not asked again, unless all answers to its sheet were rejected. Pairs that are known to match are set apart;
    --ask-known asks about them too, which is needed to measure the precision of COCO's and CxC's labels.

    Examples:
      cxc-eccv annotate propose doubts clip.npz siglip.npz --budget 900
      cxc-eccv annotate propose doubts clip.npz siglip.npz
      --strategy disagreement --budget 900
      cxc-eccv annotate propose doubts clip.npz --scheme entailment --split val
      cxc-eccv annotate propose doubts clip.npz --strategy uncertainty
      --probabilities my-classifier --images val2014
      cxc-eccv annotate propose mine clip.npz --for coco_5k/t2i/recall_at_1
      --budget 500 --probabilities judge.parquet
    """
    from pyarrow import Table

    from cxc_eccv.cli.user_tables import probabilities_or_judge

    runs = load_runs(models or (), name)
    library = open_library(labels=labels or ())
    given = {"scheme": scheme, "split": None if split is None else split_name(split), "seed": seed}
    project = _open_or_create(folder, library, {key: value for key, value in given.items() if value is not None})
    doubts = None if probabilities is None else probabilities_or_judge(probabilities, images)
    options: dict[str, Any] = {
        "strategy": strategy or ("active" if metric is not None and "/" in metric else None),
        "budget": budget,
        "depth": depth,
        "queries": None if queries is None else _read_queries(queries),
        "sources": names(sources),
        "probabilities": doubts if isinstance(doubts, Table) else None,
        "classifier": None if isinstance(doubts, Table) else doubts,
        "threshold": threshold,
        "metric": metric,
        "ask_known": ask_known or None,
        "without_reasons": without_reasons or None,
    }
    kept = {key: value for key, value in options.items() if value is not None}
    after = project.propose(runs, size=size, leave_open=leave_open, **kept)
    last = after.rounds[-1]
    if len(after.rounds) == len(project.rounds):
        say(f"round {last.number} exists already, with these options")
    else:
        pairs, sheets = count_nouns(last.candidates.num_rows, "pair"), count_nouns(len(last.sheets), "sheet")
        say(f"round {last.number} of {folder}: {pairs} in {sheets}")
        if last.known.num_rows or not ask_known:
            known = f"{last.known.num_rows:,} further pairs were proposed and are known to match"
            say(f"{known}; nobody is asked about them")
    say_export(after)


def _open_or_create(folder: Path, library: Library, given: dict[str, Any]) -> Project:
    """The project in a folder, which must have these options; or a new one with them."""
    from cxc_eccv.studies.annotation.project import Project
    from cxc_eccv.studies.annotation.rounds import round_numbers

    if not round_numbers(folder):
        name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
        return Project.create(folder, library, **{"name": name, **given})
    project = Project.open(folder, library)
    kept = {"scheme": project.scheme.name, "split": project.split, "seed": project.seed}
    for option, value in given.items():
        if kept[option] != value:
            raise InvalidOption(
                f"--{option} {value}: {folder} has {kept[option]}, which stays. Leave it out, or name another folder"
            )
    return project


def _read_queries(text: str) -> tuple[int, int]:
    """How many images and how many captions are queries."""
    numbers = re.fullmatch(r"(\d{1,9})(?:,(\d{1,9}))?", text)
    if numbers is None:
        raise InvalidOption(f"--queries {text}: give how many images and how many captions, as 500,500, or one number")
    return int(numbers[1]), int(numbers[2] or numbers[1])
