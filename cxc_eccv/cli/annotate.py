"""``cxc-eccv annotate``: the loop from disagreement of models to labels that people gave, in one folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir, Labels, names, split_name
from cxc_eccv.cli.help import Command
from cxc_eccv.cli.output import COMMAND, check_output, say_written
from cxc_eccv.cli.runs import load_runs
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.terminal import print_shown, say

if TYPE_CHECKING:
    from pyarrow import Table

    from cxc_eccv.annotation.project import Project
    from cxc_eccv.runs import Run
    from cxc_eccv.sources.library import Library
    from cxc_eccv.sources.readers import LabelFile

__all__ = ["annotate"]

annotate = typer.Typer(no_args_is_help=True, help="Extend the labels: models propose pairs, people judge them.")

Folder = Annotated[Path, typer.Argument(help="Folder of the project.")]

Form = Annotated[str, typer.Option("--format", help="html, jsonl, csv, label_studio or argilla.")]

SHOWN = 8
"""Sheets or pairs that are named in a line, of however many there are."""


@annotate.command("propose", cls=Command)
def propose(
    folder: Annotated[Path, typer.Argument(help="Folder of the project; made where there is none.")],
    models: Annotated[
        list[Path], typer.Argument(help="Embeddings, scores or rankings as of evaluate: a file per model.")
    ],
    strategy: Annotated[
        str,
        typer.Option(help="eccv, cxc or entailment, as in the papers; disagreement, bounds, uncertainty; or random."),
    ] = "eccv",
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
    scheme: Annotated[str | None, typer.Option(help="How people are asked: eccv, cxc or entailment.")] = None,
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
    leave_open: Annotated[
        bool, typer.Option("--leave-open", help="Go on although sheets of the last round have no answer.")
    ] = False,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Propose pairs to ask people about, in sheets with known pairs among them: the first round, or the next.

    The first time makes the project, with its name, scheme, split and seed, which stay. A pair that an earlier round
    asked about is not asked again. Pairs that are known to match already are set apart.

    Examples:
      cxc-eccv annotate propose doubts clip.npz siglip.npz --budget 900
      cxc-eccv annotate propose doubts clip.npz siglip.npz
      --strategy disagreement --budget 900
      cxc-eccv annotate propose doubts clip.npz --scheme entailment --split val
    """
    from cxc_eccv.cli.user_tables import policy, read_probabilities
    from cxc_eccv.sources.library import Library

    library = Library(data_dir, allow_modified=allow_modified, labels=labels or ())
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
    }
    runs = load_runs(models, direction, model_name, "--model-name")
    kept = {key: value for key, value in options.items() if value is not None}
    after = project.propose(runs, size=size, leave_open=leave_open, **kept)
    last = after.rounds[-1]
    if len(after.rounds) == len(project.rounds):
        say(f"round {last.number} is there already, as it was asked for")
    else:
        pairs, sheets = _count(last.candidates.num_rows, "pair"), _count(len(last.sheets), "sheet")
        say(f"round {last.number} of {folder}: {pairs} in {sheets}")
        say(f"{last.known.num_rows:,} further pairs were proposed and are known to match; nobody is asked about them")
    _say_export(after, data_dir)


@annotate.command("export", cls=Command)
def export(
    folder: Folder,
    output: Annotated[Path, typer.Option(help="Folder to write to; other files in it stay.")],
    form: Form = "html",
    images: Annotated[
        str,
        typer.Option(
            help="Folder of the image files, which are embedded ('sample': the sample's); an address such as "
            "images/{file_name} or https://example.org/{folder}/{file_name}; or coco, where COCO has them."
        ),
    ] = "coco",
    number: Annotated[int | None, typer.Option("--round", help="Which round. Default: the last.")] = None,
    sheets: Annotated[
        str | None, typer.Option(help="Numbers of sheets, for one person: 0-4 or 0,7. Default: all of the round.")
    ] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Write the questions of a round as a page, or for an annotation tool. Nothing in them tells the known pairs.

    html is one page for any browser, by keyboard alone: people save their answers to a file, which import reads.

    Examples:
      cxc-eccv annotate export doubts --images val2014 --output questions
      cxc-eccv annotate export doubts --sheets 0-9 --output for_ann
      cxc-eccv annotate export doubts --format label_studio --output studio
    """
    from cxc_eccv.annotation.exchange import find_images, formats
    from cxc_eccv.annotation.project import Project
    from cxc_eccv.sources.library import Library

    if form not in formats():
        raise UnknownName("format", form, formats())
    library = Library(data_dir, allow_modified=allow_modified)
    project = Project.open(folder, library)
    own = project.round(number)
    only = None if sheets is None else _read_numbers("--sheets", sheets, len(own.sheets))
    asked = own.sheets if only is None else [own.sheets[place] for place in only]
    addresses = find_images(images, asked, library, project.split)
    say_written(formats()[form].export(own.sheets, project.scheme, addresses, output, only))
    say(f"round {own.number}, {_count(len(asked), 'sheet')}: {formats()[form].exported}")
    _say_next(data_dir, "import", folder, "ANSWERS", *([] if form == "html" else ["--format", form]))


@annotate.command("import", cls=Command)
def import_answers(
    folder: Folder,
    files: Annotated[list[Path], typer.Argument(help="Answered files, all of one round.")],
    form: Form = "html",
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Take in what people answered: all files or, where anything in one is not in order, none.

    Files say which round they answer. Answers that are there already are no error, so that a person's file may come
    again when more of it is done; a different answer of the same person is refused, with both places.

    Examples:
      cxc-eccv annotate import doubts ann.jsonl ben.jsonl
      cxc-eccv annotate import doubts project-3.json --format label_studio
    """
    from cxc_eccv.annotation.project import Project
    from cxc_eccv.sources.library import Library

    before = Project.open(folder, Library(data_dir, allow_modified=allow_modified))
    after = before.add_answers(files, form)
    added = after.answers().num_rows - before.answers().num_rows
    say(f"{added:,} answers are new" if added else "nothing is new: these answers are there already")
    _say_status(after, data_dir)


@annotate.command("check", cls=Command)
def check(
    folder: Folder,
    accept: Annotated[
        list[str] | None, typer.Option(help="A sheet whose answers are good, as SHEET:WORKER; repeat it for more.")
    ] = None,
    reject: Annotated[list[str] | None, typer.Option(help="A sheet whose answers are not; of any verdict.")] = None,
    least_seconds: Annotated[
        float | None, typer.Option(help="Time below which a sheet is too hasty; 0 for no limit.")
    ] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Say which sheets count, after somebody has looked at their answers; without an option list those to look at.

    A sheet with both known pairs answered wrongly is rejected. One wrong, the same answer to all candidates, or less
    than the least time: somebody looks at its answers, which report --output shows, and decides. What was decided
    is kept in the folder (checks.json), and a later decision about a sheet takes the place of an earlier one.

    Examples:
      cxc-eccv annotate check doubts
      cxc-eccv annotate check doubts --accept 3:ann --accept 4:ann
      --reject 4:ben
      cxc-eccv annotate check doubts --least-seconds 60
    """
    from cxc_eccv.annotation.project import Project
    from cxc_eccv.annotation.quality.sheets import CHECKS
    from cxc_eccv.annotation.report import report_project
    from cxc_eccv.sources.library import Library
    from cxc_eccv.tables import tables_to_console

    decided = {
        **{_read_sheet("--accept", text): True for text in accept or ()},
        **{_read_sheet("--reject", text): False for text in reject or ()},
    }
    if len(decided) < len(accept or ()) + len(reject or ()):
        raise InvalidOption("a sheet is named twice by --accept and --reject; decide once about each")
    project = Project.open(folder, Library(data_dir, allow_modified=allow_modified))
    if (decided or least_seconds is not None) and project.decide(decided, least_seconds):
        say_written([folder / CHECKS])
    found = report_project(project)
    if found.to_check:
        print_shown(tables_to_console([found.doubt_table()]))
    _say_status(project, data_dir)


@annotate.command("merge", cls=Command)
def merge(
    folder: Folder,
    rule: Annotated[str, typer.Option(help="How answers become a label: majority, all or dawid_skene.")] = "majority",
    version: Annotated[str, typer.Option(help="Of the labels.")] = "1.0.0",
    least_answers: Annotated[int, typer.Option(help="People who must have answered about a pair.")] = 1,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Make labels of the answers: labels.parquet, a source like the official ones, and README.md, its card.

    Rejected sheets do not count, nor do those that are still to be checked by hand. The folder can be loaded by
    datasets, and pushed to the Hub, as it is.

    Examples:
      cxc-eccv annotate merge doubts
      cxc-eccv annotate merge doubts --rule dawid_skene --version 1.1.0
    """
    from cxc_eccv.annotation.project import CARD, LABELS, Project, compare_labels
    from cxc_eccv.judgments.evidence import Thresholds, gather, official_sources
    from cxc_eccv.sources.library import Library

    library = Library(data_dir, allow_modified=allow_modified)
    files = [folder / LABELS, folder / CARD]
    before = _read_all(files)
    labels = Project.open(folder, library).merge(rule=rule, version=version, least_answers=least_answers)
    if _read_all(files) == before:
        say(f"nothing has changed: {folder / LABELS} is what these answers say")
    else:
        say_written(files)
    _say_compared(labels, compare_labels(labels, library))
    judging = [name for name in official_sources() if gather(library, labels.split, "i2t", name, Thresholds())]
    command = ["cxc-eccv", "evaluate", "MODEL", "--labels", str(folder)]
    command += ["--sources", ",".join([*judging, labels.name])]
    if labels.split != "test":
        command += ["--split", labels.split]
    say(f"use them: {shlex.join(command + _data_option(data_dir))}")
    _say_next(data_dir, "report", folder, "MODEL")


@annotate.command("report", cls=Command)
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
    from cxc_eccv.annotation.labelling.changes import METRICS, TASKS, measure_changes
    from cxc_eccv.annotation.project import LABELS, Project
    from cxc_eccv.annotation.report import report_project
    from cxc_eccv.judgments.evidence import Thresholds, gather, official_sources
    from cxc_eccv.report.annotated import write_annotated
    from cxc_eccv.sources.library import Library
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


def _read_sheet(option: str, text: str) -> tuple[int, str]:
    """Number of a sheet and its worker, whose name may have colons of its own."""
    sheet, colon, worker = text.partition(":")
    if not (sheet.isdecimal() and sheet.isascii() and colon and worker):
        raise InvalidOption(f"{option} {text}: name a sheet and its worker, as 3:ann")
    return int(sheet), worker


@annotate.command("simulate", cls=Command)
def simulate(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="With --hide: files of the test split's captions or of both sides; or tfidf, overlap, noise, noise_1."
        ),
    ] = None,
    hide: Annotated[
        str | None, typer.Option(help="eccv: hide positives of ECCV Caption, and look for them with these models.")
    ] = None,
    strategies: Annotated[
        list[str] | None, typer.Option(help="Strategies to compare, comma-separated or repeated. Default: see above.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How often all is repeated, with other draws.")] = 10,
    split: Annotated[str, typer.Option(help="Without --hide: whose pairs are annotated, val or test.")] = "val",
    rounds: Annotated[int, typer.Option(help="Likewise: rounds of proposing, asking and training.")] = 3,
    budget: Annotated[int, typer.Option(help="Likewise: pairs of a round.")] = 180,
    error_rates: Annotated[
        list[str] | None, typer.Option(help="Likewise: how often each person errs, as 0.05,0.1,0.3.")
    ] = None,
    answers: Annotated[int, typer.Option(help="Likewise: people whose answers about a pair must be accepted.")] = 3,
    rule: Annotated[
        str, typer.Option(help="Likewise: how answers become a label: majority, all or dawid_skene.")
    ] = "majority",
    price: Annotated[float, typer.Option(help="Likewise: dollars of a sheet of 20 questions.")] = 0.78,
    minutes: Annotated[float, typer.Option(help="Likewise: minutes that a sheet takes.")] = 13.8,
    images: Annotated[Path, typer.Option(help="Likewise: folder of the images, for the models.")] = Path("sample"),
    share: Annotated[float, typer.Option(help="With --hide: of the positives, to be hidden.")] = 0.5,
    questions: Annotated[
        list[str] | None, typer.Option(help="Likewise: after how many to count. Default: 1000,5000,10000.")
    ] = None,
    probabilities: Annotated[
        Path | None, typer.Option(help="Likewise, for uncertainty: a file with image_id, caption_id, probability.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for simulation.json, its tables and its chart.")] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Tell how much each strategy finds, before anybody is asked.

    Without --hide: rounds of annotation on the sample, whose generator knows which captions are true of which images.
    Simulated people err; light models are fitted anew after every round. Strategies: random, eccv, disagreement,
    uncertainty, bounds.

    With --hide eccv: half of the positives that ECCV Caption alone knows are hidden, and it is counted how many of them
    a strategy asks about. Of a file of captions alone, an image is the mean of its captions. Strategies: random, eccv,
    disagreement, bounds, and with --probabilities uncertainty.

    Examples:
      cxc-eccv annotate simulate --data-dir sample --output simulated
      cxc-eccv annotate simulate --data-dir sample --strategies random,eccv
      --rounds 5 --error-rates 0,0,0
      cxc-eccv annotate simulate --hide eccv minilm.npz tfidf overlap
    """
    from cxc_eccv.report.simulated import check_price, simulation_tables, write_simulation
    from cxc_eccv.sources.library import Library
    from cxc_eccv.tables import tables_to_console

    check_output(output)
    check_price(price, minutes)
    _check_simulated(context, hide, models)
    library = Library(data_dir, allow_modified=allow_modified)
    chosen: dict[str, Any] = {"seeds": seeds} | ({} if strategies is None else {"strategies": names(strategies)})
    if hide is None:
        from cxc_eccv.annotation.simulation import ERROR_RATES, Truth
        from cxc_eccv.annotation.simulation import simulate as go_through_rounds
        from cxc_eccv.baselines.annotators import fit_anew

        Truth(library, split_name(split))  # said before the images are read
        rates = _read_values("--error-rates", error_rates, float, ERROR_RATES)
        chosen |= {"split": split_name(split), "rounds": rounds, "budget": budget, "error_rates": rates}
        retrain = fit_anew(library, split_name(split), images)
        simulation = go_through_rounds(library, retrain, **chosen, answers=answers, rule=rule)
    else:
        from cxc_eccv.annotation.simulation import search_hidden
        from cxc_eccv.cli.user_tables import read_probabilities

        chosen |= {"share": share, "questions": _read_values("--questions", questions, int, (1_000, 5_000, 10_000))}
        if probabilities is not None:
            chosen["probabilities"] = read_probabilities(probabilities)
        simulation = search_hidden(_load_scorers(models or [], library), library, **chosen)
    paid = {"price": price, "minutes": minutes}
    tables = simulation_tables(simulation, **paid)
    try:
        written = [] if output is None else write_simulation(simulation, output, **paid, command=COMMAND.get())
    finally:
        print_shown(tables_to_console(tables))
    say_written(written)


ROUNDS_ALONE = ("split", "rounds", "budget", "error_rates", "answers", "rule", "price", "minutes", "images")
HIDING_ALONE = ("share", "questions", "probabilities")


def _check_simulated(context: typer.Context, hide: str | None, models: list[str] | None) -> None:
    """Models where labels are hidden, and no option that is not read."""
    if hide not in (None, "eccv"):
        raise UnknownName("labels to hide", str(hide), ["eccv"])
    if hide is None and models:
        raise InvalidOption(
            f"{models[0]}: rounds are proposed by models that are fitted to labels anew; with --hide eccv name any"
        )
    if hide is not None and not models:
        raise InvalidOption("name the models that look for hidden labels: files, or tfidf overlap")
    unread = ROUNDS_ALONE if hide is not None else HIDING_ALONE
    given = [name for name in unread if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InvalidOption(f"{options}: not read {'with' if hide else 'without'} --hide; leave it out")


def _read_values(
    option: str, texts: list[str] | None, kind: Callable[[str], Any], default: Sequence[Any]
) -> Sequence[Any]:
    try:
        return default if texts is None else [kind(text) for text in names(texts) or []]
    except ValueError:
        raise InvalidOption(f"{option} {','.join(texts or [])}: give numbers, divided by commas") from None


def _load_scorers(models: list[str], library: Library) -> dict[str, Run]:
    """Scorers by name, and files: of one with captions alone, an image stands where its captions do."""
    from cxc_eccv.baselines.annotators import SCORERS, place_images
    from cxc_eccv.runs import EmbeddingsRun

    content = library.karpathy("test")
    runs = (
        load_runs([Path(name) for name in models if name not in SCORERS], None, None)
        if set(models) - set(SCORERS)
        else {}
    )
    for name, run in runs.items():
        if isinstance(run, EmbeddingsRun) and run.images is None:
            runs[name] = place_images(run, content)
    return runs | {name: SCORERS[name](content) for name in dict.fromkeys(models) if name in SCORERS}


def _open_or_create(folder: Path, library: Library, given: dict[str, Any]) -> Project:
    """The project of a folder, which must be as it is given; where there is none, one as it is given."""
    from cxc_eccv.annotation.project import Project
    from cxc_eccv.annotation.rounds import round_numbers

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


def _read_numbers(option: str, text: str, size: int) -> list[int]:
    """Numbers below a size: ``0-4,7``."""
    parts = [re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part) for part in text.split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part is not None]
    found = [number for part in ranges if len(part) <= size for number in part]
    if None in parts or not all(ranges) or not all(part.stop <= size for part in ranges):
        raise InvalidOption(f"{option} {text}: give numbers from 0 to {size - 1}, as 0-4 or 0,7")
    return sorted(set(found))


def _say_next(data_dir: str | None, step: str, *arguments: object) -> None:
    """Print the command that comes next, to copy."""
    say(f"next: {shlex.join(['cxc-eccv', 'annotate', step, *map(str, arguments), *_data_option(data_dir)])}")


def _say_export(project: Project, data_dir: str | None) -> None:
    """That questions go out next, with the images of this edition."""
    shown = {"official": [], "sample": ["--images", "sample"]}.get(project.library.edition, ["--images", "FOLDER"])
    _say_next(data_dir, "export", project.folder, *shown, "--output", "questions")


def _data_option(data_dir: str | None) -> list[str]:
    return [] if data_dir is None else ["--data-dir", data_dir]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _name_some(names: Iterable[object]) -> str:
    """Of many the first few."""
    every = list(map(str, names))
    return ", ".join([*every[:SHOWN], *(["..."] if len(every) > SHOWN else [])])


def _say_status(project: Project, data_dir: str | None) -> None:
    """Which sheets are answered, what is thought of them, and what comes next."""
    from cxc_eccv.annotation.quality.sheets import ACCEPTED, BY_HAND, REJECTED, judge_sheets, read_checks

    for own in project.rounds:
        people = len(set(own.answers["worker"].to_pylist()))
        still = own.open_sheets
        told = f"{len(own.sheets) - len(still):,} of {len(own.sheets):,} sheets answered, by {_count(people, 'worker')}"
        say(f"round {own.number}: {told}" + (f"; open: {_name_some(still)}" if still else ""))
    judged = judge_sheets(project.answers(), read_checks(project.folder))
    counts = {verdict: sum(own.verdict == verdict for own in judged) for verdict in (ACCEPTED, BY_HAND, REJECTED)}
    say("answered sheets: " + ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items()))
    doubtful = [f"{own.sheet}:{own.worker}" for own in judged if own.verdict == BY_HAND]
    if doubtful:
        say(f"to be checked by hand, as sheet:worker: {_name_some(doubtful)}")
        _say_next(data_dir, "report", project.folder, "--output", "report")
        _say_next(data_dir, "check", project.folder, "--accept", doubtful[0])
    if not judged:
        _say_export(project, data_dir)
    if counts[ACCEPTED]:
        _say_next(data_dir, "merge", project.folder)


def _say_compared(labels: LabelFile, compared: Table) -> None:
    """What is new, and what contradicts official sources."""
    positive = int(labels.table["positive"].to_numpy().sum())
    rows = compared.to_pylist()
    confirmed = {(row["image_id"], row["caption_id"]) for row in rows if row["positive"] and row["source_positive"]}
    say(f"{labels.table.num_rows:,} pairs have a label, {positive:,} of them positive")
    lacking = labels.facts["counts"]["pairs"] - labels.table.num_rows
    if lacking:
        say(f"{lacking:,} that were answered have none: their sheets are not accepted, or too few people answered")
    say(f"{positive - len(confirmed):,} positives are new: no official source has them")
    against = [row for row in rows if row["positive"] != row["source_positive"]]
    for source in dict.fromkeys(row["source"] for row in against):
        pairs = [row for row in against if row["source"] == source]
        named = (f"image {row['image_id']} with caption {row['caption_id']}" for row in pairs)
        say(f"{source} says otherwise of {len(pairs):,}: {_name_some(named)}")
    if not against:
        say("no label contradicts an official source")


def _read_all(files: Iterable[Path]) -> list[bytes | None]:
    return [file.read_bytes() if file.is_file() else None for file in files]
