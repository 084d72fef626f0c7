"""Models of the command line: the extra that they need, the classes that studies bring, and loading one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cxc_eccv.discovery import study_modules
from cxc_eccv.errors import InvalidOption

if TYPE_CHECKING:
    from cxc_eccv.encoding import LoadedModel

__all__ = ["ENCODING", "LOADING", "load_given_model", "needs_train_extra", "register_models"]

LOADING = (
    *("processor", "revision", "trust_remote_code", "caption_prompt", "image_prompt", "dtype", "lowercase"),
    *("device", "name"),
)
"""Options of a command that ``load_model`` takes; the last two are for files too."""

ENCODING = ("pooling", "batch_size", "central_crop", "skip_bad_images")
"""Options of a command that ``encode`` takes."""


def load_given_model(model: str, given: Mapping[str, Any]) -> tuple[LoadedModel, dict[str, Any]]:
    """The model that a command names, loaded with the options given, and the options of how it encodes."""
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
