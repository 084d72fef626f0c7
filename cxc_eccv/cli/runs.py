"""Files of several models at once, for commands that set models side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxc_eccv.errors import InvalidOption

if TYPE_CHECKING:
    from cxc_eccv.runs import Run

__all__ = ["load_runs"]


def load_runs(
    files: Sequence[Path], direction: str | None, given: Sequence[str] | None, option: str = "--name"
) -> dict[str, Run]:
    """Name to run of each model, a file each; rankings that share no direction are those of one model."""
    from cxc_eccv.runs import RankingsRun, load_run

    runs: list[Run] = [load_run(file, direction=direction) for file in files]
    directions = [named for run in runs if isinstance(run, RankingsRun) for named in run.lists]
    if len(files) > 1 and all(isinstance(run, RankingsRun) for run in runs) and len(set(directions)) == len(directions):
        runs = [load_run(*files, direction=direction)]
    names = list(given or (run.model or file.stem for run, file in zip(runs, files, strict=False)))
    if not given and len(set(names)) < len(names):
        names = [str(file) for file in files]
    if len(names) != len(runs) or len(set(names)) != len(names):
        raise InvalidOption(
            f"{len(runs)} models need as many different names, not {', '.join(names)}; give {option} once for each"
        )
    return dict(zip(names, runs, strict=True))
