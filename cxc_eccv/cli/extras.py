"""Models of the command line: the extra that they need, loading one, and the files of several models."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxc_eccv.discovery import study_modules
from cxc_eccv.errors import InvalidOption

if TYPE_CHECKING:
    from cxc_eccv.encoding import LoadedModel
    from cxc_eccv.runs import Run


def check_model(model: str, images: Path | None = None, **encoding: Any) -> None:  # noqa: ANN401 - of check_encoding
    """Refuse, before torch is imported, the name of a model, a folder of images, and options of encoding."""
    from cxc_eccv.sources.download import image_folder
    from cxc_eccv.types.models import check_encoding, check_source

    if images is not None:
        image_folder(images)
    check_source(model)
    check_encoding(**encoding)


def load_named_model(model: str, **options: Any) -> LoadedModel:  # noqa: ANN401 - as of load_model
    """The model that a command names, trained ones of the studies among them."""
    with needs_train_extra():
        from cxc_eccv.encoding import load_model

    register_models()
    return load_model(model, **options)


def is_first_process() -> bool:
    """Whether this is the process, of those of torchrun that share the encoding, that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def needs_train_extra() -> Iterator[None]:
    """Turn a missing package of the extra ``train`` into advice, for imports inside the block."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("torch", "transformers", "accelerate"):
            raise
        raise InvalidOption(
            f"this command needs {package}, which is not installed: pip install 'cxc_eccv[train]'"
        ) from None


def register_models() -> None:
    """Make the trained models of the studies known to transformers, by the type that their config names."""
    study_modules("models")


def load_runs(files: Sequence[Path], given: Sequence[str] | None) -> dict[str, Run]:
    """Name to run of each model, a file each; rankings that share no direction are those of one model."""
    from cxc_eccv.runs import RankingsRun, load_run

    runs: list[Run] = [load_run(file) for file in files]
    directions = [named for run in runs if isinstance(run, RankingsRun) for named in run.lists]
    if len(files) > 1 and all(isinstance(run, RankingsRun) for run in runs) and len(set(directions)) == len(directions):
        runs = [load_run(*files)]
    names = list(given or (run.model or file.stem for run, file in zip(runs, files, strict=False)))
    if not given and len(set(names)) < len(names):
        names = [str(file) for file in files]
    if not all(name.strip() for name in names) or not len(runs) == len(names) == len(set(names)):
        raise InvalidOption(
            f"{len(runs)} models need as many different names, not {', '.join(names)}; give --name once for each"
        )
    return dict(zip(names, runs, strict=True))
