"""Files that this package writes under a name others can foresee: never through a link they put there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from cxc_eccv.errors import DownloadFailed

__all__ = ["open_own"]


def open_own(path: Path, *, keep: bool = False) -> IO[bytes]:
    """Open a file of our own for reading and writing, and make it where it is not there.

    Args:
        path: the file.
        keep: keep what it holds; else it is emptied.

    Raises:
        DownloadFailed: a link, or no plain file, stands there: writing would change a file elsewhere.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.part"
        >>> with open_own(path) as file:
        ...     file.write(b"half")
        4
    """
    refused = f"{path} is a link or no plain file, and was not put there by this package; delete it"
    if path.is_symlink():
        raise DownloadFailed(refused)
    # Whoever puts a link there after the look is refused by the system; a pipe must not block.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    number = os.open(path, flags, 0o666)
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(number)
        raise DownloadFailed(refused)
    if not keep:
        os.ftruncate(number, 0)
    return os.fdopen(number, "r+b")
