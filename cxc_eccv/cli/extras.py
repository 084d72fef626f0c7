"""Commands that need an extra say which one where it is not installed; the model classes it brings are registered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cxc_eccv.discovery import study_modules
from cxc_eccv.errors import InvalidOption

__all__ = ["needs_train_extra", "register_models"]


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
