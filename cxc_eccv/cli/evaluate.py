"""``cxc-eccv evaluate``: a model's embeddings, scores or rankings to a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir, Thumbnails, names, split_name
from cxc_eccv.cli.output import check_output, deliver


def evaluate(
    files: Annotated[
        list[Path], typer.Argument(help="Embeddings or scores: one file. Rankings: one, or one per direction.")
    ],
    tasks: Annotated[list[str] | None, typer.Option(help="Tasks, comma-separated or repeated. Default: all.")] = None,
    metrics: Annotated[list[str] | None, typer.Option(help="Metrics, likewise. Default: each task's own.")] = None,
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    output: Annotated[
        Path | None, typer.Option(help="Folder for report.json, its tables, report.md and report.html.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the model is called. Default: what the file says, else the file's name.")
    ] = None,
    images: Thumbnails = None,
    direction: Annotated[
        str | None, typer.Option(help="Of a rankings file that does not say it: i2t, t2i, t2t or i2i.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the intervals' bootstrap.")] = 0,
    intervals: Annotated[
        str, typer.Option(help="bootstrap over images; binomial or binomial_images (Wilson's, for recall); or none.")
    ] = "bootstrap",
    unjudged: Annotated[
        str,
        typer.Option(
            help="Pairs without an entailment label: not_entailed, leave_out, or a file (.parquet, .csv, .jsonl) of "
            "predicted labels with image_id, caption_id, label."
        ),
    ] = "not_entailed",
    similarity: Annotated[
        str | None, typer.Option(help="Of embeddings: cosine or dot. Default: what the file says, else cosine.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Torch device to score embeddings on, e.g. cuda. Default: the processor.")
    ] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Score a model from its embeddings, scores or rankings of the split's images and captions.

    Embeddings (.npz, .safetensors) hold image_ids, image_embeddings, caption_ids, caption_embeddings; a text-only or
    image-only model has just its pair. Scores (.npz) hold image_ids, caption_ids, scores. Rankings are .json, .parquet
    or .trec. What a file cannot give is listed with the reason.

    Examples:
      cxc-eccv evaluate clip.npz --output report
      cxc-eccv evaluate clip.npz --output report --images val2014
      cxc-eccv evaluate clip.npz --output report --name "CLIP B/32"
      cxc-eccv evaluate clip.npz --tasks coco_5k,eccv_caption --split test
      cxc-eccv evaluate clip.npz --metrics recall_at_k,ndcg_at_k --intervals binomial
      cxc-eccv evaluate clip_i2t.trec clip_t2i.trec
    """
    from cxc_eccv.cli.user_tables import policy
    from cxc_eccv.evaluation import evaluate as evaluate_run
    from cxc_eccv.runs import load_run
    from cxc_eccv.sources.library import Library

    check_output(output, images)
    run, library = load_run(*files, direction=direction), Library(data_dir, allow_modified=allow_modified)
    report = evaluate_run(
        run,
        names(tasks) or "all",
        metrics=names(metrics),
        split=split_name(split),
        data_dir=library,
        seed=seed,
        intervals=intervals,
        unjudged=policy(unjudged),
        per_query=output is not None,
        similarity=similarity,
        device=device,
        name=name,
    )
    deliver(report, output, run, library, images)
