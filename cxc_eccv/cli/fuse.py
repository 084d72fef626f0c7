"""``cxc-eccv fuse``: several runs into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.output import say_written
from cxc_eccv.writing import check_output


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
