"""``cxc-eccv sts``: how well a text encoder's similarities agree with people, on the console and in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.delivery import check_folder, say_written
from cxc_eccv.cli.named_models import check_model
from cxc_eccv.cli.shared_options import BatchSize, Device, Dtype, names, open_library
from cxc_eccv.discovery import study_modules
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import say
from cxc_eccv.writing import write_texts

if TYPE_CHECKING:
    from cxc_eccv.encoding import TextEncoder
    from cxc_eccv.sources.library import Library
    from cxc_eccv.sts import StsReport


def sts(
    model: Annotated[str | None, typer.Option(help="Hub id or folder of a model with a text encoder.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="bow|word_vectors", help="Instead of a model: TF-IDF, or the mean of word vectors."),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(help="Text file of word vectors, one word per line as in GloVe, for --baseline word_vectors."),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option(help="Tasks: sts2012 to sts2016, stsb, sick; comma-separated or repeated. Default: all."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for sts.json and sts.md.")] = None,
    batch_size: BatchSize = 64,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Score a text encoder on SemEval STS, STS Benchmark and SICK.

    Examples:
    ```sh
    cxc-eccv sts --model sentence-transformers/all-MiniLM-L6-v2 --output sts
    cxc-eccv sts --baseline bow
    cxc-eccv sts --baseline word_vectors --vectors glove.840B.300d.txt
    ```

    A score is the correlation of its similarities with those of people. The model can be a dual encoder, a text model,
    a sentence-transformers model or a trained baseline of this package. Rows without a human score are left out and
    counted.
    """
    from cxc_eccv.sts import task_names

    check_folder(output)
    wanted = task_names(names(tasks))  # an unknown task is refused before a model is loaded
    if (model is None) == (baseline is None) or (vectors is not None and baseline is None):
        raise InvalidOption("give either --model, or --baseline bow or word_vectors, the latter with --vectors")
    library = open_library()
    if model is None:
        report = _evaluate_baseline(str(baseline), library, wanted, vectors)
    else:
        check_model(model, batch_size=batch_size, dtype=dtype)
        from cxc_eccv.encoding import text_encoder

        encoder = text_encoder(model, batch_size=batch_size, device=device, dtype=dtype)
        report = _evaluate_encoder(encoder, model, library, wanted)
    try:
        texts = {"sts.json": report.to_json(), "sts.md": report.to_markdown()}
        written = [] if output is None else write_texts(output, texts, recorded=True)
    finally:
        report.show()
    say_written(written)


def _evaluate_baseline(name: str, library: Library, tasks: list[str], vectors: Path | None) -> StsReport:
    for module in study_modules("sts_baselines"):
        report: StsReport = module.evaluate_baseline(name, library, tasks, vectors=vectors)
        return report
    raise InvalidOption(f"--baseline {name}: no study is installed that brings baselines")


def _evaluate_encoder(encoder: TextEncoder, model: str, library: Library, tasks: list[str]) -> StsReport:
    from cxc_eccv.sts import evaluate_sts

    report = evaluate_sts(encoder, library, tasks, model=Path(model).name if Path(model).is_dir() else model)
    if encoder.truncated:
        say(f"cxc-eccv: {encoder.truncated} sentences were longer than the model's context, and were cut", err=True)
    return report
