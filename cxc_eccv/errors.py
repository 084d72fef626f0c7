"""Every exception this package raises on purpose.

::

    CxcEccvError
    ├── DataError                 raw files and what is built from them
    │   ├── SourceMissing         a raw file is neither in the mirror nor in the cache, and cannot be fetched
    │   ├── HashMismatch          a raw file is not the one the catalog describes
    │   ├── DownloadFailed        the official address did not deliver the file
    │   └── MalformedSource       a raw file breaks its format; names file, place, found, expected
    ├── RunError                  a model's embeddings, scores or rankings
    │   ├── MalformedRun          unreadable, wrong dtype or shape, not finite, duplicated ids
    │   ├── UnknownIds            the run names items outside the task
    │   ├── MissingIds            the run lacks queries or gallery items of the task
    │   └── RunTooShallow         a ranking ends before the metric can be computed
    ├── ModelError                a model, or its checkpoint, is not usable
    │   ├── TowerMissing          the model has no text side, or no image side, and one is asked for
    │   └── CheckpointMismatch    weights and config of a checkpoint do not fit each other, or the run that goes on
    ├── HubError                  the Hugging Face Hub, or the way to it
    │   ├── HubUnavailable        no answer, too many requests, or a fault on its side, and repeating did not help
    │   ├── HubAccessDenied       no token, or one that may not do this
    │   └── HubConflict           the repository holds, or has meanwhile got, what stands against the change
    ├── ReportRefused             a report that must not be submitted; says why
    ├── WriteFailed               a file or folder cannot be written; names it, the reason and the remedy
    ├── UnknownName               no such task, metric, config or source; suggests the nearest
    └── InvalidOption             an argument outside its range or at odds with another

The command line prints any of these as one message and exits with status 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = [
    "CheckpointMismatch",
    "CxcEccvError",
    "DataError",
    "DownloadFailed",
    "HashMismatch",
    "HubAccessDenied",
    "HubConflict",
    "HubError",
    "HubUnavailable",
    "InvalidOption",
    "MalformedRun",
    "MalformedSource",
    "MissingIds",
    "ModelError",
    "ReportRefused",
    "RunError",
    "RunTooShallow",
    "SourceMissing",
    "TowerMissing",
    "UnknownIds",
    "UnknownName",
    "WriteFailed",
    "raise_all",
]


class CxcEccvError(Exception):
    """Root of the tree: catch this to catch everything the package raises on purpose.

    What a file names itself, its members or its columns may hold control characters; a message shows them escaped, so
    that none reaches a terminal. They may also be of any length; a message leaves out the middle of a long text.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(cut(escape(cut(text), keep="\n")) if isinstance(text, str) else text for text in args))

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an error that comes from another process is made again from its text alone, which the
        # constructors of some do not take.
        return _make_again, (type(self), self.args, self.__dict__)


def escape(text: str, keep: str = "") -> str:
    """The text with every character that is not printable escaped, but for those to ``keep``."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else repr(one)[1:-1] for one in text)


def cut(text: str) -> str:
    """The text without its middle, if it is longer than anybody reads.

    Example:
        >>> len(cut("x" * 1_000_000)), cut("x" * 1_000_000)[6990:7030]
        (10024, 'xxxxxxxxxx … 990,000 characters … xxxxxx')
    """
    if len(text) <= LONGEST:
        return text
    return f"{text[:BEGINNING]} … {len(text) - LONGEST:,} characters … {text[BEGINNING - LONGEST :]}"


LONGEST, BEGINNING = 10_000, 7_000
"""Characters of a message, and how many of them stand before what is left out."""


def _make_again(kind: type[CxcEccvError], args: tuple[Any, ...], attributes: dict[str, Any]) -> CxcEccvError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class DataError(CxcEccvError):
    """A raw file, or something built from raw files, is not usable."""


class SourceMissing(DataError):
    """A raw file is not on this machine and cannot be fetched."""


class HashMismatch(DataError):
    """A raw file's bytes are not those the catalog describes."""


class DownloadFailed(DataError):
    """The official address did not deliver the file."""


class MalformedSource(DataError):
    """A raw file breaks its format."""

    def __init__(self, path: str | Path, place: str, found: object, expected: str) -> None:
        self.path, self.place, self.found, self.expected = path, place, found, expected
        where = f"{path}, {place}" if place else str(path)
        super().__init__(f"{where}: found {found}, expected {expected}")


class RunError(CxcEccvError):
    """A model's embeddings, scores or rankings are not usable."""


class MalformedRun(RunError):
    """Unreadable, of the wrong type or shape, not finite, or with duplicated ids."""

    def __init__(self, message: str) -> None:
        super().__init__(escape(message))


class UnknownIds(RunError):
    """The run names items that the task does not know."""


class MissingIds(RunError):
    """The run lacks queries or gallery items that the task needs."""


class RunTooShallow(RunError):
    """A ranking ends before the metric can be computed from it."""


class ModelError(CxcEccvError):
    """A model, or its checkpoint, is not usable."""


class TowerMissing(ModelError):
    """The model has no text side, or no image side, and one is asked for."""


class CheckpointMismatch(ModelError):
    """Weights and config of a checkpoint do not fit each other, or the run that goes on."""


class HubError(CxcEccvError):
    """The Hugging Face Hub, or the way to it, did not do what was asked."""


class HubUnavailable(HubError):
    """No answer, too many requests, or a fault on the Hub's side.

    The Hub may ask to wait for ``retry_after`` seconds.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class HubAccessDenied(HubError):
    """No token, or one that may not do this."""


class HubConflict(HubError):
    """The repository holds, or has meanwhile got, what stands against the change."""


class ReportRefused(CxcEccvError):
    """A report that must not be submitted; the message says why."""


class WriteFailed(CxcEccvError):
    """A file or folder cannot be written; what was there before is as it was."""


class UnknownName(CxcEccvError):
    """No such task, metric, config or source.

    Example:
        >>> print(UnknownName("config", "stss", ["sts", "sis", "sits"]))
        unknown config 'stss'; did you mean 'sts'? Known: sts, sis, sits
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = list(known)
        near = difflib.get_close_matches(str(name)[:100], names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        super().__init__(f"unknown {kind} {cut(repr(name))}{hint} Known: {', '.join(names)}")


class InvalidOption(CxcEccvError):
    """An argument is outside its range or at odds with another one."""


def raise_all(errors: Iterable[CxcEccvError]) -> None:
    """Raise everything that is wrong at once: one line each, as an error of the first one's kind.

    Example:
        >>> raise_all([MissingIds("no images"), RunTooShallow("no depth"), MissingIds("no images")])
        Traceback (most recent call last):
        cxc_eccv.errors.MissingIds: no images
        no depth
    """
    found = {str(error): error for error in errors}
    for first in found.values():
        raise first if len(found) == 1 else type(first)("\n".join(found))
