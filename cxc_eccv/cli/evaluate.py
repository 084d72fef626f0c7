"""``cxc-eccv evaluate``: a model's embeddings to a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir, names, split_name

__all__ = ["evaluate"]


def evaluate(
    file: Annotated[Path, typer.Argument(help="Embeddings: .npz or .safetensors.")],
    tasks: Annotated[list[str] | None, typer.Option(help="Tasks, comma-separated or repeated. Default: all.")] = None,
    metrics: Annotated[list[str] | None, typer.Option(help="Metrics, likewise. Default: each task's own.")] = None,
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    output: Annotated[Path | None, typer.Option(help="Folder for report.json.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the intervals' bootstrap.")] = 0,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Score a model from its embeddings of the split's images and captions.

    The file holds image_ids, image_embeddings, caption_ids, caption_embeddings; a text-only or image-only model has
    just its pair, and the tasks it cannot do are listed with the reason.

    Examples:
      cxc-eccv evaluate clip.npz --output report
      cxc-eccv evaluate clip.npz --tasks coco_5k,eccv_caption --split test
    """
    from cxc_eccv.cli.output import write_report
    from cxc_eccv.evaluation import evaluate as evaluate_run
    from cxc_eccv.report.console import print_report
    from cxc_eccv.runs import load_embeddings
    from cxc_eccv.sources.library import Library

    run = load_embeddings(file)
    report = evaluate_run(
        run,
        names(tasks) or "all",
        metrics=names(metrics),
        split=split_name(split),
        data_dir=Library(data_dir, allow_modified=allow_modified),
        seed=seed,
    )
    print_report(report)
    write_report(report, output)
