"""Commands that need an extra say which one where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cxc_eccv.errors import InvalidOption

__all__ = ["needs_train_extra"]

TRAIN_PACKAGES = ("torch", "transformers", "accelerate")


@contextmanager
def needs_train_extra() -> Iterator[None]:
    """Turn a missing package of the extra ``train`` into advice, for imports inside the block.

    Raises:
        InvalidOption: torch, transformers or accelerate is not installed.

    Example:
        >>> with needs_train_extra():
        ...     raise ModuleNotFoundError("No module named 'torch'", name="torch")
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: this command needs torch, which is not installed: pip install 'cxc_eccv[train]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in TRAIN_PACKAGES:
            raise
        raise InvalidOption(
            f"this command needs {package}, which is not installed: pip install 'cxc_eccv[train]'"
        ) from None
