"""``cxc-eccv evaluate``: models, or their embeddings, scores or rankings, to reports."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cxc_eccv.evaluation import Request
    from cxc_eccv.runs import EmbeddingsRun, Run
    from cxc_eccv.sources.library import Library
    from cxc_eccv.types.provenance import RunFacts


def evaluate(
    context: typer.Context,
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
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
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
            help="Direction of a rankings file that does not state it: i2t, t2i, t2t or i2i. Repeat for several files.",
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
            help="For metrics without K: unjudged items that --bounds considers per query. Default: 50.",
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
    cxc-eccv evaluate --model openai/clip-vit-base-patch32 --images val2014 \
      --output report
    cxc-eccv evaluate clip.npz --output clip
    cxc-eccv evaluate clip.npz --tasks eccv_caption --metrics map_at_r
    ```

    A model is encoded first, and its embeddings are kept for the next command. An interrupted command continues when
    you run it again. For prompts, revisions, pooling, types of weights or crops, run cxc-eccv encode first.

    Several models or files get a folder each in --output, and are compared at the end.
    Rankings of one model are found by their names, as clip_i2t.trec, clip_t2i.trec, blip_i2t.trec.

    Embeddings (.npz, .safetensors) hold image_ids, image_embeddings, caption_ids, caption_embeddings; a text-only or
    image-only model has one of the two pairs, and a model that encodes queries otherwise also
    caption_query_embeddings and image_query_embeddings. Scores (.npz) hold image_ids, caption_ids, scores. Rankings are
    .json, .parquet or .trec. The report lists what a file cannot give, with the reason.
    """
    from cxc_eccv.report.saving import FILES
    from cxc_eccv.runs.load import group_files
    from cxc_eccv.sources.download import image_folder

    _check_source(context, files, model)
    for source in model or ():
        check_packages(source)
    models = _find_models(model or [], group_files(files or [], direction or []), name, output)
    for each in models:
        check_folder(each.output, FILES)
    if model and images is not None:
        image_folder(images)
    request = _make_request(context)
    looks = bool(model) or getattr(request.judge, "images", None) is not None
    check_folder(output, images=None if looks else images)
    library = open_library(labels=labels or ())
    if not context.params["overwrite"]:
        for each in models:
            _refuse_other_report(each, library.edition)
    _check_models(context, models, request, library)
    _evaluate_models(context, models, request, library)


def _make_request(context: typer.Context) -> Request:
    """The request that the options make; an option with the name of a field is that field."""
    from cxc_eccv.cli.user_tables import load_judge
    from cxc_eccv.evaluation import Request

    given = context.params
    values = {field.name: given[field.name] for field in fields(Request) if given.get(field.name) not in (None, [], ())}
    values |= {option: names(value) for option, value in values.items() if isinstance(value, list | tuple)}
    values |= {
        "split": split_name(given["split"]),
        "bounds": given["bounds"] or given["answers"] is not None,
        "per_query": given["output"] is not None,
        "name": None,  # each model has its own
    }
    if given["judge"] is not None:
        values["judge"] = load_judge(given["judge"], given["images"], given["device"])
    return Request(**values)


class _Model(NamedTuple):
    """A model to evaluate: a name for a folder, the name given to it, its id, or its files; and its report's folder."""

    folder: str
    title: str | None
    encoder: str | None
    files: tuple[Path, ...] = ()
    directions: tuple[str, ...] = ()
    output: Path | None = None

    def load(self) -> Run:
        """The run in the files."""
        from cxc_eccv.runs import load_run

        return load_run(*self.files, direction=self.directions or None)


def _check_models(context: typer.Context, models: Sequence[_Model], request: Request, library: Library) -> None:
    """Raise, before a model is loaded or scored, the errors of raw files, and what several files lack."""
    from cxc_eccv.encoding.evaluate_model import check_before_encoding, find_photographs
    from cxc_eccv.evaluation.calls import plan_run
    from cxc_eccv.ranking import ranked
    from cxc_eccv.types import SIDES

    if context.params["model"]:
        images = context.params["images"]
        split = library.split(request.split).first(request.limit)
        check_before_encoding(request, library, ("captions",) if images is None else SIDES)
        if images is not None:
            find_photographs(split, images, skip_bad=context.params["skip_bad_images"])
    elif len(models) > 1:
        for model in models:
            try:
                plan_run(ranked(model.load(), request.make_options()), request, library)
            except InvalidOption as error:  # which does not name the file
                raise InvalidOption(f"{' and '.join(map(str, model.files))}: {error}") from None


def _evaluate_models(context: typer.Context, models: Sequence[_Model], request: Request, library: Library) -> None:
    """Score each model, and compare several at the end."""
    from cxc_eccv.evaluation import evaluate_request

    output = context.params["output"]
    pages = context.params["images"] if output is not None else None
    for model in models:
        asked = replace(request, name=model.title)
        run = _encode(model.encoder, context, asked, library) if model.encoder else model.load()
        if is_first_process():
            report = evaluate_request(run, asked, library)
            deliver(report, model.output, images=pages, overwrite=context.params["overwrite"])
    if len(models) > 1 and is_first_process():
        compare([output / model.folder for model in models], output=output)


def _check_source(context: typer.Context, files: list[Path] | None, model: list[str] | None) -> None:
    """Files or models, and no option of the one with the other."""
    if files and model:
        raise InvalidOption(f"{files[0]} is encoded already: give it, or --model {model[0]}, not both")
    if not files and not model:
        raise InvalidOption(
            "nothing to evaluate: name a file of embeddings, scores or rankings, or a model with --model ID_OR_FOLDER"
        )
    others, wanted = (("skip_bad_images",), "--model") if files else (("direction",), "files")
    given = [name for name in others if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InvalidOption(f"{options}: only for {wanted}; leave it out")


def _find_models(
    encoders: Sequence[str],
    groups: Sequence[tuple[str, tuple[tuple[Path, ...], tuple[str, ...]]]],
    titles: Sequence[str] | None,
    output: Path | None,
) -> list[_Model]:
    """The models to encode, or those in groups of files, with a folder for each."""
    from cxc_eccv.runs.run import check_name

    found = [_Model(_folder_name(encoder), None, encoder) for encoder in encoders]
    found += [_Model(_folder_name(name), None, None, *of) for name, of in groups]
    if titles and len(titles) != len(found):
        raise InvalidOption(
            f"--name: {len(titles)} names for {len(found)} model{'s'[: len(found) - 1]}; give one for each"
        )
    for title in titles or ():
        check_name("evaluate", title, InvalidOption)
    if len(found) > 1 and output is None:
        raise InvalidOption("several models: name a folder for their reports with --output")
    if titles:
        found = [
            model._replace(folder=_folder_name(title), title=title) for model, title in zip(found, titles, strict=True)
        ]
    if len({model.folder for model in found}) < len(found):
        raise InvalidOption("two models have the same name; give each of them another one with --name")
    return [model._replace(output=output and (output / model.folder if len(found) > 1 else output)) for model in found]


def _folder_name(model: str) -> str:
    """A name for a folder, of a model's id, folder or name."""
    path = Path(model)
    return re.sub(r"[^\w.-]+", "-", path.resolve().name if path.is_dir() else model).strip(".-").lower() or "model"


def _refuse_other_report(model: _Model, edition: str) -> None:
    """Refuse to replace the report of another command, file or edition of the data, or files that are of no report."""
    from cxc_eccv.report.files import REPORT
    from cxc_eccv.report.loading import read_report
    from cxc_eccv.report.saving import refuse_foreign_files

    if model.output is None:
        return
    refuse_foreign_files(model.output)
    report = model.output / REPORT
    if not report.is_file():
        return
    provenance = read_report(report).provenance
    if provenance.command != COMMAND.get():
        before = f"of another command: {provenance.command}" if provenance.command else "that no command wrote"
    elif provenance.data.edition != edition:
        before = f"of the {provenance.data.edition} data, but this is the {edition} data"
    elif _is_of_other_files(model.files, provenance.run, report.stat().st_mtime):
        before = f"of another {' and '.join(file.name for file in model.files)}"
    else:
        return
    raise InvalidOption(
        f"{model.output} holds a report {before}. Name another folder with --output, or replace that report with "
        "--overwrite."
    )


def _is_of_other_files(files: Sequence[Path], run: RunFacts, written: float) -> bool:
    """Whether a report is of files with other content, although these files have not changed since it was written."""
    from cxc_eccv.hashing import hash_file

    if any(file.stat().st_mtime > written for file in files):
        return False
    recorded = {rankings.sha256 for rankings in run.directions.values()} or {run.sha256}
    return bool(files) and {hash_file(file) for file in files} != recorded


def _encode(model: str, context: typer.Context, request: Request, library: Library) -> EmbeddingsRun:
    """The model's embeddings of the split's images and captions, made now or before; says where they are kept."""
    from cxc_eccv.encoding.evaluate_model import find_items
    from cxc_eccv.types.model_options import Encoding

    images = context.params["images"]
    check_model(model, images)
    from cxc_eccv.encoding import encode_once, load_model

    loaded = load_model(model, device=request.device, name=request.name)
    encoding = Encoding(skip_bad_images=context.params["skip_bad_images"])
    items = find_items(loaded, images, request, library, skip_bad=encoding.skip_bad_images)
    run, was_there = encode_once(loaded, images=items.images, captions=items.captions, encoding=encoding)
    say_kept(run, was_there)
    return run
