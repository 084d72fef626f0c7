"""``cxc-eccv evaluate``: models, or their embeddings, scores or rankings, to reports."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.compare import compare
from cxc_eccv.cli.delivery import COMMAND, check_folder, deliver, say_kept
from cxc_eccv.cli.named_models import check_model, check_packages, is_first_process
from cxc_eccv.cli.shared_options import (
    OF_ENCODING,
    OF_LABELS,
    OF_MODEL,
    OF_RERUN,
    OF_STATISTICS,
    Confidence,
    Labels,
    Seed,
    Similarity,
    SkipBadImages,
    Sources,
    Tasks,
    TrainingData,
    names,
    open_library,
    split_name,
)
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import show_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cxc_eccv.evaluation import Request
    from cxc_eccv.runs import EmbeddingsRun, Run
    from cxc_eccv.sources.library import Library
    from cxc_eccv.types.provenance import Provenance, RunFacts


def evaluate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Embeddings or scores: a file for each model. Rankings: a file for each model, or one per direction."
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model to encode and score: its id or folder, or open_clip:NAME/TAG. Repeat to compare."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder with the photographs, at any depth: for models of images, and for thumbnails."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the report: report.json, its page and tables.")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="Name of the model in the report; repeat for each. Default: the file's.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Score only this many images and their captions: a first try.")
    ] = None,
    tasks: Tasks = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(help="Metrics, such as R@1,mAP@R; comma-separated or repeated. Default: each task's own."),
    ] = None,
    split: Annotated[str, typer.Option(metavar="val|test", help="Split to score.")] = "test",
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace the report of another command, and files of yours with its names.",
            rich_help_panel=OF_RERUN,
        ),
    ] = False,
    similarity: Similarity = None,
    training_data: TrainingData = None,
    direction: Annotated[
        list[str] | None,
        typer.Option(
            metavar="i2t|t2i|t2t|i2i",
            help="Direction of a rankings file that does not state it. Repeat for several files.",
            rich_help_panel=OF_MODEL,
        ),
    ] = None,
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing",
            help="Score a file that lacks items of the split. The report says so.",
            rich_help_panel=OF_MODEL,
        ),
    ] = False,
    missing: Annotated[
        str | None,
        typer.Option(
            metavar="zero",
            help="Count queries without results as 0, as trec_eval -c; rankings only; not with --allow-missing. "
            "Default: refuse the file.",
            rich_help_panel=OF_MODEL,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="Torch device, such as cuda. Default: a GPU if there is one to encode, the processor to score.",
            rich_help_panel=OF_ENCODING,
        ),
    ] = None,
    skip_bad_images: SkipBadImages = False,
    labels: Labels = None,
    sources: Sources = None,
    unjudged: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="What Entail@K makes of pairs that nobody judged: not_entailed or leave_out. Default: what --judge "
            "says, else not_entailed.",
            rich_help_panel=OF_LABELS,
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            help="Who answers for pairs that nobody judged: a file (.parquet, .csv, .jsonl) of image_id, caption_id "
            "and probability or label, or the id or folder of a classifier of entailment. With --bounds it gives "
            "expected values.",
            rich_help_panel=OF_LABELS,
        ),
    ] = None,
    bounds: Annotated[
        bool,
        typer.Option(
            "--bounds",
            help="Show the lowest and the highest value of each number, whatever labels the unjudged pairs get.",
            rich_help_panel=OF_LABELS,
        ),
    ] = False,
    bounds_depth: Annotated[
        int | None,
        typer.Option(
            help="For metrics without K: the top items of a query that --bounds looks at, and the most new positives "
            "that it may get. Default: 50.",
            rich_help_panel=OF_LABELS,
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="Folder of an annotation project (annotate propose --number): with --judge, its number is "
            "estimated, with an interval.",
            rich_help_panel=OF_LABELS,
        ),
    ] = None,
    intervals: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="bootstrap over images; binomial or binomial_images (Wilson's, for recall); or none.",
            rich_help_panel=OF_STATISTICS,
        ),
    ] = "bootstrap",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
) -> None:
    r"""Score a model, or its embeddings, scores or rankings.

    Examples:
    ```sh
    cxc-eccv evaluate clip.npz --output clip
    cxc-eccv evaluate --model openai/clip-vit-base-patch32 --images val2014 \
      --output clip_b32
    cxc-eccv evaluate clip.npz --tasks eccv_caption --metrics map_at_r
    ```

    A model is encoded first, and its embeddings are kept for the next command. An interrupted command continues when
    you run it again. For prompts, revisions, pooling, types of weights or crops, run cxc-eccv encode first.

    Several models or files get a folder each in --output, and are compared at the end.
    Rankings of one model are found by their names, as clip_i2t.trec, clip_t2i.trec, blip_i2t.trec.

    Embeddings (.npz, .safetensors) hold image_ids, image_embeddings, caption_ids, caption_embeddings; a text-only or
    image-only model has one of the two pairs, and a model that encodes queries otherwise also
    caption_query_embeddings and image_query_embeddings. Scores (.npz) hold image_ids, caption_ids, and scores
    (images x captions), or scores_i2t (images x captions) and scores_t2i (captions x images); a mask (scored,
    scored_i2t, scored_t2i) or unscored=-100 names pairs without a score. Rankings are .json (lists of ids or
    {id: score}, also .json.gz), .parquet or .trec. The report lists what a file cannot give, with the reason.
    """
    with show_steps(1) as begin:
        begin("loading packages")
        from cxc_eccv.cli.user_tables import load_judge
        from cxc_eccv.evaluation import Request, evaluate_request
        from cxc_eccv.report.saving import FILES
        from cxc_eccv.runs.load import group_files
        from cxc_eccv.sources.download import image_folder

    encoders = model or []
    _check_source(files or [], encoders, direction or [], skip_bad_images)
    models = _find_models(encoders, group_files(files or [], direction or []), name or [], output)
    for each in models:
        check_folder(each.output, FILES)
    if encoders and images is not None:
        image_folder(images)
    task_names = names(tasks)
    request = Request(
        split=split_name(split),
        tasks="all" if task_names is None else task_names,
        metrics=names(metrics),
        sources=names(sources),
        limit=limit,
        allow_missing=allow_missing,
        missing=missing,
        similarity=similarity,
        training_data=names(training_data),
        device=device,
        judge=None if judge is None else load_judge(judge, images, device),
        unjudged=unjudged,
        bounds=bounds or answers is not None,
        bounds_depth=bounds_depth,
        answers=answers,
        intervals=intervals,
        confidence=confidence,
        seed=seed,
        per_query=output is not None,
    )
    needs_images = bool(encoders) or getattr(request.judge, "images", None) is not None
    check_folder(output, images=None if needs_images else images)
    library = open_library(labels=labels or ())
    _refuse_idle_labels(labels or (), request.sources, task_names, library)
    if not overwrite:
        _refuse_other_reports(models, library.edition)
    if encoders:
        _check_data(images, skip_bad_images, request, library)
    elif len(models) > 1:
        _check_runs(models, request, library)
    for each in models:
        own_request = replace(request, name=each.title)
        if each.encoder is None:
            run: Run = each.load()
        else:
            run = _encode(each, images, skip_bad_images, own_request, library, overwrite=overwrite)
        if is_first_process():
            pages = None if output is None else images
            deliver(evaluate_request(run, own_request, library), each.output, images=pages, overwrite=overwrite)
    if output is not None and len(models) > 1 and is_first_process():
        compare([output / each.folder for each in models], output=output)


@dataclass(frozen=True, slots=True)
class _Model:
    """A model to evaluate: a name for a folder, the name given to it, its id, or its files; and its report's folder."""

    folder: str
    title: str | None = None
    encoder: str | None = None
    files: tuple[Path, ...] = ()
    directions: tuple[str, ...] = ()
    output: Path | None = None

    def load(self) -> Run:
        """The run in the files."""
        from cxc_eccv.runs import load_run

        with show_steps(1) as begin:
            begin(f"reading {' and '.join(map(str, self.files))}")
            return load_run(*self.files, direction=self.directions or None)


def _check_data(images: Path | None, skip_bad: bool, request: Request, library: Library) -> None:
    """Raise, before a model is loaded, the errors of raw files and of the images that it encodes."""
    from cxc_eccv.encoding.evaluate_model import check_before_encoding, find_photographs
    from cxc_eccv.types import SIDES

    check_before_encoding(request, library, ("captions",) if images is None else SIDES)
    if images is not None:
        find_photographs(library.split(request.split).first(request.limit), images, skip_bad=skip_bad)


def _check_runs(models: Sequence[_Model], request: Request, library: Library) -> None:
    """Raise, before the first of several files is scored, what one of them lacks."""
    from cxc_eccv.evaluation.calls import plan_run
    from cxc_eccv.ranking import ranked

    for model in models:
        try:
            plan_run(ranked(model.load(), request.make_options()), request, library)
        except InvalidOption as error:  # which does not name the file
            raise InvalidOption(f"{' and '.join(map(str, model.files))}: {error}") from None


def _refuse_idle_labels(
    labels: Sequence[str], sources: Sequence[str] | None, task_names: Sequence[str] | None, library: Library
) -> None:
    """Refuse a file, folder or dataset of labels that none of the named sources uses.

    What ``annotate merge`` wrote feeds the task ``annotated`` too, if that is scored.
    """
    if sources is None:
        return
    has_annotated = task_names is None or any(name.partition("/")[0] == "annotated" for name in task_names)
    for named in labels:
        label_names = library.find_label_names(named)
        feeds_annotated = has_annotated and not set(label_names) <= set(library.table_names)
        if feeds_annotated or set(label_names) & set(sources):
            continue
        with_labels = ",".join([*sources, *label_names])
        raise InvalidOption(
            f"--labels {named}: no named source uses it; say --sources {with_labels}, or leave --labels out"
        )


def _check_source(
    files: Sequence[Path], encoders: Sequence[str], directions: Sequence[str], skip_bad_images: bool
) -> None:
    """Refuse files and models together, an option of the one with the other, and models without their packages."""
    if files and encoders:
        raise InvalidOption(f"{files[0]} is encoded already: give it, or --model {encoders[0]}, not both")
    if not files and not encoders:
        raise InvalidOption(
            "nothing to evaluate: name a file of embeddings, scores or rankings, or a model with --model ID_OR_FOLDER"
        )
    if files and skip_bad_images:
        raise InvalidOption("--skip-bad-images: only for --model; leave it out")
    if encoders and directions:
        raise InvalidOption("--direction: only for files; leave it out")
    for encoder in encoders:
        check_packages(encoder)


def _find_models(
    encoders: Sequence[str],
    groups: Sequence[tuple[str, tuple[tuple[Path, ...], tuple[str, ...]]]],
    titles: Sequence[str],
    output: Path | None,
) -> list[_Model]:
    """The models to encode, or those in groups of files, with a folder for each."""
    from cxc_eccv.runs.run import check_name

    models = [_Model(_name_folder(encoder), encoder=encoder) for encoder in encoders]
    models += [_Model(_name_folder(name), files=files, directions=directions) for name, (files, directions) in groups]
    if titles and len(titles) != len(models):
        noun = "model" if len(models) == 1 else "models"
        raise InvalidOption(f"--name: {len(titles)} names for {len(models)} {noun}; give one for each")
    for title in titles:
        check_name("evaluate", title, InvalidOption)
    if len(models) > 1 and output is None:
        raise InvalidOption("several models: name a folder for their reports with --output")
    if titles:
        pairs = zip(models, titles, strict=True)
        models = [replace(model, folder=_name_folder(title), title=title) for model, title in pairs]
    folders = {model.folder for model in models}
    if len(folders) < len(models):
        raise InvalidOption("two models have the same name; give each of them another one with --name")
    if output is None:
        return models
    if len(models) == 1:
        return [replace(models[0], output=output)]
    return [replace(model, output=output / model.folder) for model in models]


def _name_folder(model: str) -> str:
    """A name for a folder, of a model's id, folder or name."""
    path = Path(model)
    return re.sub(r"[^\w.-]+", "-", path.resolve().name if path.is_dir() else model).strip(".-").lower() or "model"


def _refuse_other_reports(models: Sequence[_Model], edition: str) -> None:
    for model in models:
        _refuse_other_report(model, edition)


def _refuse_other_report(model: _Model, edition: str) -> None:
    """Refuse to replace the report of another command, file or edition of the data, or files that are of no report."""
    from cxc_eccv.report.files import REPORT
    from cxc_eccv.report.saving import refuse_foreign_files

    if model.output is None:
        return
    refuse_foreign_files(model.output)
    provenance = _read_provenance(model.output)
    if provenance is None:
        return
    written = (model.output / REPORT).stat().st_mtime
    if provenance.command != COMMAND.get():
        before = f"of another command: {provenance.command}" if provenance.command else "that no command wrote"
    elif provenance.data.edition != edition:
        before = f"of the {provenance.data.edition} data, but this is the {edition} data"
    elif _is_of_other_files(model.files, provenance.run, written):
        before = f"of another {' and '.join(file.name for file in model.files)}"
    else:
        return
    raise _describe_other_report(model.output, before)


def _read_provenance(folder: Path) -> Provenance | None:
    """The facts of the report in a folder; None without a report."""
    from cxc_eccv.report.files import REPORT
    from cxc_eccv.report.loading import read_report

    report = folder / REPORT
    return read_report(report).provenance if report.is_file() else None


def _describe_other_report(folder: Path, before: str) -> InvalidOption:
    return InvalidOption(
        f"{folder} holds a report {before}. Name another folder with --output, or replace that report with --overwrite."
    )


def _refuse_other_embeddings(folder: Path, model: str, before: str | None, now: str) -> None:
    """Refuse to replace a report of embeddings that the cache keeps in another file, or in an unknown one.

    The command does not tell models apart: folders are left out of it, so that others can repeat it.
    """
    if before is None:
        raise _describe_other_report(folder, f"that does not record its embeddings: it may be of another {model}")
    if before != now:
        raise _describe_other_report(
            folder,
            f"of the embeddings {before}, not of those of {model}: it is of another model, or the weights, the "
            "photographs or the version of a package changed since",
        )


def _is_of_other_files(files: Sequence[Path], run: RunFacts, written: float) -> bool:
    """Whether a report is of files with other content, although these files have not changed since it was written."""
    from cxc_eccv.hashing import hash_file

    if any(file.stat().st_mtime > written for file in files):
        return False
    recorded = {rankings.sha256 for rankings in run.directions.values()} or {run.sha256}
    return bool(files) and {hash_file(file) for file in files} != recorded


def _encode(
    model: _Model, images: Path | None, skip_bad_images: bool, request: Request, library: Library, *, overwrite: bool
) -> EmbeddingsRun:
    """The model's embeddings of the split's images and captions, made now or before; says where they are kept."""
    from cxc_eccv.encoding.evaluate_model import find_items
    from cxc_eccv.types.model_options import Encoding

    assert model.encoder is not None  # noqa: S101 - files are loaded, not encoded
    check_model(model.encoder, images)
    from cxc_eccv.encoding import encode_once, find_cache_file, load_model

    loaded = load_model(model.encoder, device=request.device, name=request.name)
    items = find_items(loaded, images, request, library, skip_bad=skip_bad_images)
    encoding = Encoding(skip_bad_images=skip_bad_images)
    other = None if overwrite or model.output is None else _read_provenance(model.output)
    if other is not None and model.output is not None:
        embeddings = find_cache_file(loaded, images=items.images, captions=items.captions, encoding=encoding)
        _refuse_other_embeddings(model.output, model.encoder, other.run.file, embeddings.name)
    run, was_there = encode_once(loaded, images=items.images, captions=items.captions, encoding=encoding)
    say_kept(run, was_there)
    return run
