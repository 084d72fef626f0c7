"""Standard output and standard error that cost no run its result, whatever becomes of their readers."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

__all__ = ["Outlet", "safe_streams"]


class Outlet(io.FileIO):
    """The file behind a standard stream: once it cannot be written any more, what comes is dropped.

    A run that prints on the way would otherwise end at a pipe that nobody reads, before its files are written.

    Attributes:
        lost: why it cannot be written any more, or None.
    """

    lost: OSError | None = None

    def write(self, data: Any) -> int:  # noqa: ANN401 - whatever has bytes, as of the class above
        """Write, or drop."""
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
        return memoryview(data).nbytes


def safe_streams() -> Outlet | None:
    """Put outlets below ``sys.stdout`` and ``sys.stderr``; what their encoding cannot say is replaced.

    A closed stream leads to nowhere: left closed, the next file that is opened would take its number, and every
    message of a library would be written into that file.

    Returns:
        The outlet of standard output; None where a program that calls this one catches what is printed.
    """
    outlets: dict[str, Outlet] = {}
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__"):
            continue
        if stream is None:
            _lead_nowhere(number)
        outlet = Outlet(number, "w", closefd=False)
        text = io.TextIOWrapper(
            io.BufferedWriter(outlet),
            encoding="utf-8" if stream is None else stream.encoding,
            errors="replace",
            line_buffering=outlet.isatty() or name == "stderr",
        )
        if stream is not None:
            stream.flush()
        setattr(sys, name, text)
        outlets[name] = outlet
    return outlets.get("stdout")


def _lead_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
    os.set_inheritable(number, True)
