"""How many items go through a model at once."""

from __future__ import annotations

from cxc_eccv.errors import InvalidOption

__all__ = ["checked_batch_size"]


def checked_batch_size(batch_size: int) -> int:
    """The number, once it is known to be one.

    Raises:
        InvalidOption: not a whole number of at least 1.

    Example:
        >>> checked_batch_size(64)
        64
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidOption(f"batch_size is {batch_size!r}, expected a whole number of at least 1")
    return batch_size
