"""``cxc-eccv annotate propose``: the project, and its next round."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import Labels, names, open_library, split_name
from cxc_eccv.cli.extras import load_runs
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.commands.annotate.telling import count_nouns, say_export
from cxc_eccv.terminal import say

if TYPE_CHECKING:
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.annotation.project import Project


def propose(
    folder: Annotated[Path, typer.Argument(help="Folder of the project; made where there is none.")],
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="Embeddings, scores or rankings as of evaluate: a file per model; random needs none."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="eccv, cxc or entailment, as in the papers; disagreement, bounds, uncertainty; or random. Default: "
            "eccv, and cxc for pairs of two images or two captions."
        ),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Candidates at most. Default: all that are proposed.")] = None,
    depth: Annotated[
        int | None, typer.Option(help="Items of a list that are proposed. Default: what the strategy says.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="Queries drawn: images and captions, as 500,500, or a number for both.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Of the labels, as --sources will have it. Default: that of the folder.")
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(
            help="How people are asked: eccv, cxc or entailment; cxc_images or cxc_captions, about two images or two "
            "captions. Default: eccv."
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test. Default: test.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all draws. Default: 0.")] = None,
    size: Annotated[int, typer.Option(help="Candidates of a sheet, beside two known pairs.")] = 18,
    model_name: Annotated[
        list[str] | None,
        typer.Option(help="What the models are called, one per file. Default: what the file says, else its name."),
    ] = None,
    direction: Annotated[str | None, typer.Option(help="Of a rankings file that does not say it: i2t or t2i.")] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(help="Whose labels are known, so that nobody is asked. Default: those of all people."),
    ] = None,
    labels: Labels = None,
    probabilities: Annotated[
        Path | None, typer.Option(help="For uncertainty: a file with image_id, caption_id, probability.")
    ] = None,
    classifier: Annotated[
        str | None, typer.Option(help="For uncertainty, in its place: id or folder of a classifier of entailment.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the images, for a classifier that looks.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="For uncertainty: where doubt is largest. Default: the classifier's, else 0.5.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="For bounds: the metric that a label shall move.")] = None,
    ask_known: Annotated[
        bool, typer.Option("--ask-known", help="Ask about pairs that sources call positive, too.")
    ] = False,
    without_reasons: Annotated[
        bool, typer.Option("--without-reasons", help="Do not ask why a match is not whole.")
    ] = False,
    leave_open: Annotated[
        bool, typer.Option("--leave-open", help="Go on although sheets of the last round have no answer.")
    ] = False,
) -> None:
    """Propose pairs to ask people about, in sheets with known pairs among them: the first round, or the next.

    The first time makes the project, with its name, scheme, split and seed, which stay. A pair that an earlier round
    asked about is not asked again, unless all answers to its sheet were rejected. Pairs that are known to match already
    are set apart, unless --ask-known asks about them: only then the precision of COCO's and CxC's labels can be told.

    Examples:
      cxc-eccv annotate propose doubts clip.npz siglip.npz --budget 900
      cxc-eccv annotate propose doubts clip.npz siglip.npz
      --strategy disagreement --budget 900
      cxc-eccv annotate propose doubts clip.npz --scheme entailment --split val
    """
    from cxc_eccv.cli.user_tables import policy, read_probabilities

    runs = load_runs(models or (), direction, model_name, "--model-name")
    library = open_library(labels=labels or ())
    given = {"name": name, "scheme": scheme, "split": None if split is None else split_name(split), "seed": seed}
    project = _open_or_create(folder, library, {key: value for key, value in given.items() if value is not None})
    options: dict[str, Any] = {
        "strategy": strategy,
        "budget": budget,
        "depth": depth,
        "queries": None if queries is None else _read_queries(queries),
        "sources": names(sources),
        "probabilities": None if probabilities is None else read_probabilities(probabilities),
        "classifier": None if classifier is None else policy(classifier, images),
        "threshold": threshold,
        "metric": metric,
        "ask_known": ask_known or None,
        "without_reasons": without_reasons or None,
    }
    kept = {key: value for key, value in options.items() if value is not None}
    after = project.propose(runs, size=size, leave_open=leave_open, **kept)
    last = after.rounds[-1]
    if len(after.rounds) == len(project.rounds):
        say(f"round {last.number} is there already, as it was asked for")
    else:
        pairs, sheets = count_nouns(last.candidates.num_rows, "pair"), count_nouns(len(last.sheets), "sheet")
        say(f"round {last.number} of {folder}: {pairs} in {sheets}")
        if last.known.num_rows or not ask_known:
            known = f"{last.known.num_rows:,} further pairs were proposed and are known to match"
            say(f"{known}; nobody is asked about them")
    say_export(after)


def _open_or_create(folder: Path, library: Library, given: dict[str, Any]) -> Project:
    """The project of a folder, which must be as it is given; where there is none, one as it is given."""
    from cxc_eccv.studies.annotation.project import Project
    from cxc_eccv.studies.annotation.rounds import round_numbers

    if not round_numbers(folder):
        name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
        return Project.create(folder, library, **{"name": name, **given})
    project = Project.open(folder, library)
    own = {"name": project.name, "scheme": project.scheme.name, "split": project.split, "seed": project.seed}
    for option, value in given.items():
        if own[option] != value:
            raise InvalidOption(
                f"--{option} {value}: that of {folder} is {own[option]} and stays. Leave it out, or name another folder"
            )
    return project


def _read_queries(text: str) -> tuple[int, int]:
    """How many images and how many captions are queries."""
    numbers = re.fullmatch(r"(\d{1,9})(?:,(\d{1,9}))?", text)
    if numbers is None:
        raise InvalidOption(f"--queries {text}: give how many images and how many captions, as 500,500, or one number")
    return int(numbers[1]), int(numbers[2] or numbers[1])
