"""The models and runs that a command names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxc_eccv.errors import InvalidOption
from cxc_eccv.extras import PACKAGES, require

if TYPE_CHECKING:
    from cxc_eccv.runs import Run


def check_model(model: str, images: Path | None = None, *, batch_size: int = 64, dtype: str | None = None) -> None:
    """Refuse, before torch is imported, what no model, folder of images, size of batches or type of weights can be.

    Missing packages are named first: a user without them should not download photographs before hearing of it.
    """
    from cxc_eccv.sources.download import image_folder
    from cxc_eccv.types.model_options import Encoding, check_dtype, check_source

    check_packages(model)
    if images is not None:
        image_folder(images)
    check_source(model)
    check_dtype(dtype)
    Encoding(batch_size=batch_size)


def check_packages(model: str) -> None:
    """Raise ExtraMissing if a package is not installed that every model needs, or this one by its name."""
    from cxc_eccv.types.model_options import OPEN_CLIP_PREFIXES

    for package in PACKAGES["train"]:
        require(package, "train", "encoding needs")
    if model.startswith(OPEN_CLIP_PREFIXES):
        require("open_clip", "open_clip", f"the model {model} needs")
    if (Path(model) / "modules.json").is_file():
        require("sentence_transformers", "st", f"the model {model} needs")


def is_first_process() -> bool:
    """Whether this is the process, of those of torchrun that share the encoding, that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def load_runs(files: Sequence[Path], given: Sequence[str] | None) -> dict[str, Run]:
    """Name to run of each model, a file each; rankings that share no direction are those of one model."""
    from cxc_eccv.runs.load import group_files, load_run, name_file

    groups = [paths for _, (paths, _) in group_files(files)]
    runs = [load_run(*paths) for paths in groups]
    names = list(given or (run.model or name_file(paths[0]) for run, paths in zip(runs, groups, strict=True)))
    if not given and len(set(names)) < len(names):
        names = [str(paths[0]) for paths in groups]
    if not all(name.strip() for name in names) or not len(runs) == len(names) == len(set(names)):
        raise InvalidOption(
            f"{len(runs)} models need as many different names, not {', '.join(names)}; give --name once for each"
        )
    return dict(zip(names, runs, strict=True))
