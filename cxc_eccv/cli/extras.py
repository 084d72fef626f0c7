"""Models of the command line: the extra that they need, loading one, and the files of several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxc_eccv.discovery import study_modules
from cxc_eccv.errors import InvalidOption

if TYPE_CHECKING:
    from cxc_eccv.encoding import LoadedModel
    from cxc_eccv.runs import Run

LOADING = (
    *("processor", "revision", "trust_remote_code", "caption_prompt", "image_prompt", "dtype", "lowercase"),
    *("device", "name"),
)
"""Options of a command that ``load_model`` takes; the last two are for files too."""

ENCODING = ("pooling", "batch_size", "central_crop", "skip_bad_images")


def check_model(model: str, images: Path | None = None, **encoding: Any) -> None:  # noqa: ANN401 - of check_encoding
    """Refuse, before torch is imported, the name of a model, a folder of images, and options of encoding."""
    from cxc_eccv.sources.download import image_folder
    from cxc_eccv.types.encoding_options import check_encoding, check_source

    if images is not None:
        image_folder(images)
    check_source(model)
    check_encoding(**encoding)


def load_given_model(model: str, given: Mapping[str, Any]) -> tuple[LoadedModel, dict[str, Any]]:
    """The model that a command names, loaded with the options given, and the options of how it encodes."""
    checked = {name: given[name] for name in ("pooling", "batch_size", "dtype", "central_crop") if name in given}
    check_model(model, given.get("images"), **checked)
    with needs_train_extra():
        from cxc_eccv.encoding import load_model

    register_models()
    return load_model(model, **{name: given[name] for name in LOADING}), {name: given[name] for name in ENCODING}


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
