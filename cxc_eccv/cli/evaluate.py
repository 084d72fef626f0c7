"""``cxc-eccv evaluate``: models, or their embeddings, scores or rankings, to reports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import (
    Confidence,
    Labels,
    Seed,
    Similarity,
    SkipBadImages,
    Sources,
    Tasks,
    TrainingData,
    check_model,
    is_first_process,
    load_named_model,
    names,
    open_library,
    split_name,
)
from cxc_eccv.cli.compare import compare
from cxc_eccv.cli.output import (
    check_folder,
    deliver,
    read_run,
    say_kept,
    say_written,
    warn_of_other_versions,
    write_run,
)
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cxc_eccv.runs import EmbeddingsRun, Run
    from cxc_eccv.sources.library import Library


def evaluate(
    context: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Embeddings or scores: one file. Rankings: one, or one per direction.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Model to encode first, instead of files: its id or folder, or open_clip:NAME/TAG. Repeat to "
            "evaluate several models and compare them."
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder with the images, at any depth: for models of images, and for thumbnails."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with options of this command, as the run.yaml beside a report. Options on the command line "
            "override it.",
            is_eager=True,
            callback=read_run,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Score only this many images, the first by id, and their captions: a first try.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of the model; with several, one for each. Default: the one in the file, else the file's name."
        ),
    ] = None,
    direction: Annotated[
        list[str] | None,
        typer.Option(
            help="Direction of a rankings file that does not state it: i2t, t2i, t2t or i2i. Repeat for several files."
        ),
    ] = None,
    similarity: Similarity = None,
    training_data: TrainingData = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="Torch device, such as cuda. Default: a GPU if there is one to encode, the processor to score."
        ),
    ] = None,
    skip_bad_images: SkipBadImages = False,
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    labels: Labels = None,
    sources: Sources = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Score a file that lacks items of the split. The report says so.")
    ] = False,
    tasks: Tasks = None,
    metrics: Annotated[
        list[str] | None, typer.Option(help="Metrics, comma-separated or repeated. Default: each task's own.")
    ] = None,
    unjudged: Annotated[
        str,
        typer.Option(
            help="Label of pairs without an entailment label: not_entailed, leave_out, a file (.parquet, .csv, .jsonl) "
            "with image_id, caption_id, label, or the id or folder of a classifier of entailment."
        ),
    ] = "not_entailed",
    bounds: Annotated[
        bool,
        typer.Option(
            "--bounds",
            help="Show the lowest and the highest value that each number has under any labels of the pairs "
            "without a label (without K: at most --bounds-depth new positives a query).",
        ),
    ] = False,
    bounds_depth: Annotated[
        int | None,
        typer.Option(
            help="Retrieved items, and most new positives, per query for bounds of metrics without K. Default: 50."
        ),
    ] = None,
    probabilities: Annotated[
        Path | None,
        typer.Option(
            help="File (.parquet, .csv, .jsonl) with image_id, caption_id and probability of entailment, for an "
            "expected value between the bounds."
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="Folder of an annotation project that asked about pairs drawn for a number (annotate propose --for): "
            "with --probabilities or a classifier, that number is estimated, with an interval."
        ),
    ] = None,
    intervals: Annotated[
        str, typer.Option(help="bootstrap over images; binomial or binomial_images (Wilson's, for recall); or none.")
    ] = "bootstrap",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    output: Annotated[
        Path | None, typer.Option(help="Folder for report.json, its tables, report.md, report.html and run.yaml.")
    ] = None,
    keep_run: Annotated[
        Path | None,
        typer.Option(help="Run file (.run.parquet) for later reports under other labels, without the model."),
    ] = None,
) -> None:
    """Score a model, or its embeddings, scores or rankings of the split's images and captions.

    A model is encoded first. An interrupted command continues where it stopped when you run it again, and the next
    command with this model reuses its embeddings. For prompts, revisions, pooling, types of weights or crops, run
    cxc-eccv encode first.

    Several models are evaluated one after the other, each in a folder of --output, and compared at the end. Models that
    have a report by the same options are skipped.

    Embeddings (.npz, .safetensors) hold image_ids, image_embeddings, caption_ids, caption_embeddings; a text-only or
    image-only model has one of the two pairs. Scores (.npz) hold image_ids, caption_ids, scores. Rankings are .json,
    .parquet or .trec. The report lists what a file cannot give, with the reason.

    Examples:
      cxc-eccv evaluate --model openai/clip-vit-base-patch32 --images val2014
      --output report
      cxc-eccv evaluate --model openai/clip-vit-base-patch32 --images val2014
      --limit 200
      cxc-eccv evaluate --model sentence-transformers/all-MiniLM-L6-v2
      cxc-eccv evaluate --model openai/clip-vit-base-patch32
      --model google/siglip-base-patch16-224 --images val2014 --output reports
      cxc-eccv evaluate --config report/run.yaml
      cxc-eccv evaluate clip.npz --output report
      cxc-eccv evaluate clip.npz --output report --images val2014
      cxc-eccv evaluate clip.npz --output report --name "CLIP B/32"
      cxc-eccv evaluate clip.npz --tasks coco_5k,eccv_caption --split test
      cxc-eccv evaluate clip.npz --metrics recall_at_k,ndcg_at_k --intervals binomial
      cxc-eccv evaluate clip.npz --bounds
      cxc-eccv evaluate clip.npz --keep-run clip.run.parquet
      cxc-eccv evaluate clip.npz --probabilities judge.parquet --answers mine
      cxc-eccv evaluate clip.npz --labels mine.parquet --sources coco,cxc,eccv,mine
      cxc-eccv evaluate clip_i2t.trec clip_t2i.trec
      cxc-eccv evaluate clip.npz --tasks entailment --unjudged my-classifier
    """
    from cxc_eccv.cli.user_tables import policy, read_probabilities
    from cxc_eccv.evaluation import check_request
    from cxc_eccv.evaluation import evaluate as evaluate_run
    from cxc_eccv.report.folder import FILES, RUN
    from cxc_eccv.runs import load_run
    from cxc_eccv.sources.download import image_folder

    _check_source(context, files, model)
    models = _choose_folders(model or [], name, output)
    check_folder(output, (*FILES, RUN) if len(models) < 2 else ())
    if model and images is not None:
        image_folder(images)
    judge = policy(unjudged, images, device)
    looks = bool(model) or getattr(judge, "images", None) is not None
    check_folder(output, images=None if looks else images)
    library = open_library(labels=labels or ())
    if keep_run is not None:
        _check_keep(keep_run, limit, allow_missing, len(models))
    warn_of_other_versions(context, library)
    options: dict[str, Any] = {
        "tasks": names(tasks) or "all",
        "metrics": names(metrics),
        "split": split_name(split),
        "data_dir": library,
        "seed": seed,
        "confidence": confidence,
        "intervals": intervals,
        "unjudged": judge,
        "bounds": bounds or answers is not None,
        "bounds_depth": bounds_depth,
        "probabilities": None if probabilities is None else read_probabilities(probabilities),
        "answers": answers,
        "similarity": similarity,
        "device": device,
        "limit": limit,
        "sources": names(sources),
        "training_data": names(training_data),
    }
    scoring: dict[str, Any] = {"per_query": output is not None, "allow_missing": allow_missing}
    pages = images if output is not None else None
    if not model:
        run = load_run(*(files or ()), direction=direction)
        report = evaluate_run(run, **options, **scoring, name=name[0] if name else None)
        if keep_run is not None:
            _keep(keep_run, run, options | {"name": report.provenance.get("model")})
        deliver(report, output, run, library, pages, write_run(context, library))
        return
    check_request(("images", "captions"), **options)  # what no model can change is refused before one is loaded
    _evaluate_models(context, models, library, options, scoring, pages)


def _evaluate_models(
    context: typer.Context,
    models: Mapping[str, tuple[str, str | None]],
    library: Library,
    options: dict[str, Any],
    scoring: Mapping[str, Any],
    pages: Path | None,
) -> None:
    """Encode and score each model, but those whose report is there, and compare several at the end."""
    from cxc_eccv.evaluation import evaluate as evaluate_run

    output, keep_run, several = context.params["output"], context.params["keep_run"], len(models) > 1
    for folder, (model, title) in models.items():
        place = output / folder if several and output is not None else output
        text = write_run(context, library, model=[model], name=None if title is None else [title])
        if several and place is not None and _is_finished(place, text):
            say(f"{place} holds the report of {model} with these options: skipping it")
            continue
        options["name"] = title
        encoded = _encode(model, context.params, options)
        if is_first_process():
            report = evaluate_run(encoded, **options, **scoring)
            if keep_run is not None:
                _keep(keep_run, encoded, options)
            deliver(report, place, encoded, library, pages, text)
    if several and output is not None and is_first_process():
        compare([output / folder for folder in models], output=output)


def _check_keep(path: Path, limit: int | None, allow_missing: bool, n_models: int) -> None:
    """Refuse a run file that cannot be written, or that would lack a part of the split."""
    from cxc_eccv.runs.kept import check_run_file

    check_run_file(path)
    if limit is not None or allow_missing:
        raise InvalidOption("--keep-run keeps whole runs; leave out --limit and --allow-missing")
    if n_models > 1:
        raise InvalidOption("--keep-run names one file; evaluate one model at a time, or use cxc-eccv shelf add")


def _keep(path: Path, run: Run, options: dict[str, Any]) -> None:
    from cxc_eccv.evaluation.kept import keep_run

    kept = ("split", "data_dir", "training_data", "similarity", "name", "device")
    keep_run(path, run, **{name: options[name] for name in kept})
    say_written([path])


def _check_source(context: typer.Context, files: list[Path] | None, model: list[str] | None) -> None:
    """Files or models, and no option of the one with the other."""
    if files and model:
        raise InvalidOption(f"--model encodes {model[0]}, and {files[0]} is encoded already: give one of the two")
    if not files and not model:
        raise InvalidOption(
            "nothing to evaluate: name a file of embeddings, scores or rankings, or a model with --model ID_OR_FOLDER"
        )
    others, wanted = (("skip_bad_images",), "--model") if files else (("direction",), "files")
    given = [name for name in others if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InvalidOption(f"{options}: only for {wanted}; leave it out")


def _choose_folders(
    models: list[str], titles: list[str] | None, output: Path | None
) -> dict[str, tuple[str, str | None]]:
    """The name of a folder for each model, to the model and the name given to it."""
    from cxc_eccv.runs.run import check_name

    wanted = max(len(models), 1)
    if titles and len(titles) != wanted:
        raise InvalidOption(f"--name: {len(titles)} names for {wanted} model{'s'[: wanted - 1]}; give one for each")
    for title in titles or ():
        check_name("evaluate", title, InvalidOption)
    if len(models) > 1 and output is None:
        raise InvalidOption("several models: name a folder for their reports with --output")
    given = [(model, titles[place] if titles else None) for place, model in enumerate(models)]
    folders = {_folder_name(title or model): (model, title) for model, title in given}
    if len(folders) < len(models):
        raise InvalidOption("two models have the same name; give each of them another one with --name")
    return folders


def _folder_name(model: str) -> str:
    """A name for a folder, of a model's id, folder or name."""
    path = Path(model)
    return re.sub(r"[^\w.-]+", "-", path.resolve().name if path.is_dir() else model).strip(".-").lower() or "model"


def _is_finished(folder: Path, run_file: str) -> bool:
    """Whether a folder holds a report that these options made."""
    from cxc_eccv.evaluation.report_files import REPORT
    from cxc_eccv.report.folder import RUN

    path = folder / RUN
    return (folder / REPORT).is_file() and path.is_file() and path.read_text(encoding="utf-8") == run_file


def _encode(model: str, given: dict[str, Any], scoring: dict[str, Any]) -> EmbeddingsRun:
    """The model's embeddings of the split's images and captions, made now or before; says where they are kept."""
    from cxc_eccv.evaluation import check_request
    from cxc_eccv.from_model import encode_split

    check_model(model, given["images"])
    check_request(("captions",) if given["images"] is None else ("images", "captions"), **scoring)
    loaded = load_named_model(model, device=given["device"], name=scoring["name"])
    run, was_there = encode_split(loaded, given["images"], scoring, skip_bad_images=given["skip_bad_images"])
    say_kept(run, was_there)
    return run
