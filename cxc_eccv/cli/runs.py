"""``cxc-eccv fuse``: several runs into one; ``cxc-eccv quantize``: what int8 and binary vectors lose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.choices import names, open_library
from cxc_eccv.cli.output import say_written
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import print_shown
from cxc_eccv.writing import check_output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cxc_eccv.runs import Run
    from cxc_eccv.tables import Table
    from cxc_eccv.types import Report


def fuse(
    runs: Annotated[list[Path], typer.Argument(help="Two or more files of embeddings, scores or rankings.")],
    output: Annotated[Path, typer.Option(help="File of the fused rankings (.parquet).")],
    method: Annotated[
        str, typer.Option(help="rrf (reciprocal rank, k = 60) or sum (of scores scaled to 0 to 1 in each list).")
    ] = "rrf",
    weight: Annotated[
        list[float] | None, typer.Option(help="Weight of a run in a sum; repeat for each. Default: 1 each.")
    ] = None,
) -> None:
    """Fuse the rankings of several models, in every direction that all of them rank.

    The runs must rank the same queries. A query takes its best 200 items from embeddings or scores; rankings are taken
    whole. Embeddings are compared by the similarity that their file states, else cosine.

    Examples:
      cxc-eccv fuse clip.npz blip.parquet --output fused.parquet
      cxc-eccv fuse clip.npz blip.npz --method sum --weight 2 --weight 1 --output fused.parquet
      cxc-eccv evaluate fused.parquet
    """
    from cxc_eccv.ranking.fusion import fuse as fuse_runs
    from cxc_eccv.runs import load_run
    from cxc_eccv.runs.rankings import write_rankings

    check_output(output, (".parquet",))
    fused = fuse_runs([load_run(path) for path in runs], method, weights=weight)
    write_rankings(output, fused)
    say_written([output])


def quantize(
    file: Annotated[Path, typer.Argument(help="Embeddings (.npz, .safetensors).")],
    tasks: Annotated[list[str] | None, typer.Option(help="Tasks, comma-separated or repeated. Default: all.")] = None,
) -> None:
    """Compare float32, int8 and binary vectors: their size, and what each metric loses.

    Vectors are quantized as sentence-transformers does, with and without ranking the best 200 items of each query again
    by the float query.

    Examples:
      cxc-eccv quantize clip.npz
      cxc-eccv quantize clip.npz --tasks coco_5k,eccv_caption
    """
    from cxc_eccv.evaluation import evaluate
    from cxc_eccv.ranking.quantized import PRECISIONS, rescore
    from cxc_eccv.ranking.quantized import quantize as quantize_run
    from cxc_eccv.runs import EmbeddingsRun, load_run
    from cxc_eccv.tables import tables_to_console

    run = load_run(file)
    if not isinstance(run, EmbeddingsRun):
        raise InvalidOption(f"{file}: holds {run.kind}; only embeddings can be quantized")
    library, chosen = open_library(), names(tasks) or "all"
    made = {precision: quantize_run(run, precision) for precision in PRECISIONS}
    size = sum(side.vectors.nbytes for side in (run.images, run.captions) if side is not None)
    runs: dict[str, tuple[Run, int]] = {"float32": (run, size)}
    for precision, quantized in made.items():
        runs[precision] = quantized.search, quantized.size
        runs[f"{precision} rescored"] = rescore(quantized), quantized.size
    reports = {
        name: evaluate(quantized, chosen, data_dir=library, intervals="none") for name, (quantized, _) in runs.items()
    }
    print_shown(tables_to_console([_lay_out(reports, {name: size for name, (_, size) in runs.items()})]))


def _lay_out(reports: Mapping[str, Report], sizes: Mapping[str, int]) -> Table:
    """A row per metric: the value of float vectors, and the change of the others."""
    from cxc_eccv.tables import MISSING, Table
    from cxc_eccv.wording import key_name, show_value, task_name

    full, *others = reports.values()
    rows = [["MB", *(f"{size / 1e6:.2f}" for size in sizes.values())]]
    for task in dict.fromkeys(row.task for row in full.results):
        rows.append([task_name(task)])
        for row in (row for row in full.results if row.task == task):
            changes = [other.scores.get(row.key) for other in others]
            texts = [MISSING if to is None else show_value(row.metric, to - row.value, sign=True) for to in changes]
            rows.append([key_name(row.key), show_value(row.metric, row.value), *texts])
    note = "Percent, or ranks: the value of float32 vectors, and the change of the others."
    return Table([("",), *((name,) for name in reports)], rows, "Quantized vectors", notes=[note])
