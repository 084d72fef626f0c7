"""``cxc-eccv evaluate``: a model, or its embeddings, scores or rankings, to a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import Labels, SkipBadImages, add_encoding_options, names, open_library, split_name
from cxc_eccv.cli.extras import ENCODING, LOADING, load_given_model
from cxc_eccv.cli.output import check_output, deliver, say_kept
from cxc_eccv.errors import InvalidOption

if TYPE_CHECKING:
    from cxc_eccv.runs import EmbeddingsRun, Run


@add_encoding_options(after="skip_bad_images", without=("device", "skip_bad_images"))
def evaluate(
    context: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Embeddings or scores: one file. Rankings: one, or one per direction.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="In place of files, a model to encode first: its id or folder, or open_clip:NAME/TAG."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the image files, at any depth: for models that look at them, and for thumbnails."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="A first try on the first so many images, by id, and their captions alone.")
    ] = None,
    tasks: Annotated[list[str] | None, typer.Option(help="Tasks, comma-separated or repeated. Default: all.")] = None,
    metrics: Annotated[list[str] | None, typer.Option(help="Metrics, likewise. Default: each task's own.")] = None,
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    output: Annotated[
        Path | None, typer.Option(help="Folder for report.json, its tables, report.md and report.html.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the model is called. Default: what the file says, else the file's name.")
    ] = None,
    direction: Annotated[
        str | None, typer.Option(help="Of a rankings file that does not say it: i2t, t2i, t2t or i2i.")
    ] = None,
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing", help="Score what a file has of the split, where it lacks items; the report says so."
        ),
    ] = False,
    labels: Labels = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            help="Sources of labels that say together what is positive in every task, comma-separated or repeated: "
            "coco, cxc, eccv, entailment and names of --labels. Default: each task's own."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the intervals' bootstrap.")] = 0,
    intervals: Annotated[
        str, typer.Option(help="bootstrap over images; binomial or binomial_images (Wilson's, for recall); or none.")
    ] = "bootstrap",
    unjudged: Annotated[
        str,
        typer.Option(
            help="Pairs without an entailment label: not_entailed, leave_out, a file (.parquet, .csv, .jsonl) of "
            "predicted labels with image_id, caption_id, label, or the id or folder of a classifier of entailment."
        ),
    ] = "not_entailed",
    bounds: Annotated[
        bool,
        typer.Option(
            "--bounds", help="Show how low and how high every number could be, were all retrieved pairs judged."
        ),
    ] = False,
    bounds_depth: Annotated[
        int | None, typer.Option(help="Items of a query that count as retrieved, where a metric has no K. Default: 50.")
    ] = None,
    probabilities: Annotated[
        Path | None,
        typer.Option(
            help="For an expected value between the bounds, a file (.parquet, .csv, .jsonl) with image_id, caption_id "
            "and probability, that the image entails the caption."
        ),
    ] = None,
    similarity: Annotated[
        str | None, typer.Option(help="Of embeddings: cosine or dot. Default: what the file says, else cosine.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="Torch device to score embeddings on, e.g. cuda. Default: the processor; for a model to run on, a GPU "
            "where there is one."
        ),
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(help="File (.npz, .safetensors) to keep its embeddings in. Default: one in the cache."),
    ] = None,
    skip_bad_images: SkipBadImages = False,
    **_encoding: Any,  # noqa: ANN401 - of many types
) -> None:
    """Score a model of the split's images and captions, or its embeddings, scores or rankings of them.

    A model is encoded first, as by encode: killed, the same command goes on where it was, and its embeddings are kept,
    so that the next command with this model scores at once. Options from --embeddings to --central-crop are for it.

    Embeddings (.npz, .safetensors) hold image_ids, image_embeddings, caption_ids, caption_embeddings; a text-only or
    image-only model has just its pair. Scores (.npz) hold image_ids, caption_ids, scores. Rankings are .json, .parquet
    or .trec. What a file cannot give is listed with the reason.

    Examples:
      cxc-eccv evaluate --model openai/clip-vit-base-patch32 --images val2014
      --output report
      cxc-eccv evaluate --model openai/clip-vit-base-patch32 --images val2014
      --limit 200
      cxc-eccv evaluate --model sentence-transformers/all-MiniLM-L6-v2
      cxc-eccv evaluate clip.npz --output report
      cxc-eccv evaluate clip.npz --output report --images val2014
      cxc-eccv evaluate clip.npz --output report --name "CLIP B/32"
      cxc-eccv evaluate clip.npz --tasks coco_5k,eccv_caption --split test
      cxc-eccv evaluate clip.npz --metrics recall_at_k,ndcg_at_k --intervals binomial
      cxc-eccv evaluate clip.npz --bounds
      cxc-eccv evaluate clip.npz --labels mine.parquet --sources coco,cxc,eccv,mine
      cxc-eccv evaluate clip_i2t.trec clip_t2i.trec
      cxc-eccv evaluate clip.npz --tasks entailment --unjudged my-classifier
    """
    from cxc_eccv.cli.user_tables import policy, read_probabilities
    from cxc_eccv.evaluation import evaluate as evaluate_run
    from cxc_eccv.report.folder import FILES
    from cxc_eccv.runs import load_run

    _check_source(context, files, model)
    check_output(output, FILES)
    judge = policy(unjudged, images, device)
    looks = model is not None or getattr(judge, "images", None) is not None
    check_output(output, images=None if looks else images)
    library = open_library(labels=labels or ())
    options: dict[str, Any] = {
        "tasks": names(tasks) or "all",
        "metrics": names(metrics),
        "split": split_name(split),
        "data_dir": library,
        "seed": seed,
        "intervals": intervals,
        "unjudged": judge,
        "bounds": bounds,
        "bounds_depth": bounds_depth,
        "probabilities": None if probabilities is None else read_probabilities(probabilities),
        "similarity": similarity,
        "device": device,
        "name": name,
        "limit": limit,
        "sources": names(sources),
    }
    run: Run
    if model is not None:
        run = _encode(model, context.params, options)
        if os.environ.get("RANK", "0") != "0":
            return  # of torchrun's processes, which shared the work, the first one scores
    else:
        run = load_run(*(files or ()), direction=direction)
    report = evaluate_run(run, **options, per_query=output is not None, allow_missing=allow_missing)
    deliver(report, output, run, library, images if output is not None else None)


def _check_source(context: typer.Context, files: list[Path] | None, model: str | None) -> None:
    """Files or a model, and no option of the one with the other."""
    if files and model is not None:
        raise InvalidOption(f"--model encodes {model}, and {files[0]} is encoded already: give one of the two")
    if not files and model is None:
        raise InvalidOption(
            "nothing to evaluate: name a file of embeddings, scores or rankings, or a model with --model ID_OR_FOLDER"
        )
    others, wanted = (("embeddings", *LOADING[:-2], *ENCODING), "--model") if files else (("direction",), "files")
    given = [name for name in others if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InvalidOption(f"{options}: for {wanted} alone; leave it out")


def _encode(model: str, given: dict[str, Any], scoring: dict[str, Any]) -> EmbeddingsRun:
    """What the model makes of the split's images and captions, now or before; says where that is kept."""
    from cxc_eccv.from_model import encode_split
    from cxc_eccv.sources.download import image_folder

    if given["images"] is not None:
        image_folder(given["images"])
    loaded, options = load_given_model(model, given)
    run, was_there = encode_split(loaded, given["images"], scoring, file=given["embeddings"], **options)
    say_kept(run, was_there)
    return run
