"""``cxc-eccv sts``: how well a text encoder's similarities agree with people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir, names
from cxc_eccv.terminal import say

__all__ = ["sts"]


def sts(
    model: Annotated[str, typer.Option(help="Hub id or folder of a model with a text encoder.")],
    tasks: Annotated[
        list[str] | None,
        typer.Option(help="sts2012 to sts2016, stsb, sick; comma-separated or repeated. Default: all."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for sts.json and sts.md.")] = None,
    pooling: Annotated[str, typer.Option(help="Of a plain transformers text model: mean or cls.")] = "mean",
    batch_size: Annotated[int, typer.Option(help="Texts at once.")] = 64,
    device: Annotated[str | None, typer.Option(help="Torch device. Default: a GPU where there is one.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16. Default: float32.")] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Correlate the similarities of a text encoder with human scores on SemEval STS, the STS Benchmark and SICK.

    Any model that cxc-eccv encode takes texts with: a dual encoder, a text model, a sentence-transformers model, or a
    baseline of this package. Rows without a human score are left out and counted.

    Example: cxc-eccv sts --model sentence-transformers/all-MiniLM-L6-v2 --output sts
    """
    from cxc_eccv.cli.extras import needs_train_extra
    from cxc_eccv.cli.output import check_output, say_written
    from cxc_eccv.cli.sts_output import print_sts, write_sts
    from cxc_eccv.sources.library import Library
    from cxc_eccv.sts import evaluate_sts
    from cxc_eccv.sts.tasks import task_names

    check_output(output)
    wanted = task_names(names(tasks))  # an unknown task is refused before a model is loaded
    with needs_train_extra():
        from cxc_eccv.cli.model_classes import register_models
        from cxc_eccv.encoding import text_encoder

    register_models()
    library = Library(data_dir, allow_modified=allow_modified)
    encoder = text_encoder(model, pooling=pooling, batch_size=batch_size, device=device, dtype=dtype)
    report = evaluate_sts(encoder, library, wanted, model=Path(model).name if Path(model).is_dir() else model)
    if encoder.truncated:
        say(f"cxc-eccv: {encoder.truncated} sentences were longer than the model's context, and were cut", err=True)
    try:
        written = write_sts(report, output)
    finally:
        print_sts(report)
    say_written(written)
