"""The exceptions that this package raises on purpose.

::

    CxcEccvError
    ├── DataError                 raw files, and what is built from them
    │   ├── SourceMissing         a raw file is not on this machine and cannot be downloaded
    │   ├── HashMismatch          a raw file differs from the catalog's
    │   ├── DownloadFailed        the official address did not deliver the file
    │   │   └── ServerUnreachable no connection to its server
    │   └── MalformedSource       a raw file breaks its format; names the place, what was found and expected
    ├── RunError                  a model's embeddings, scores or rankings
    │   ├── MalformedRun          unreadable, wrong dtype or shape, not finite, duplicated ids
    │   ├── UnknownIds            the run has items that are not in the task
    │   ├── MissingIds            the run lacks queries or gallery items of the task
    │   └── RunTooShallow         a ranking ends before the metric can be computed
    ├── ModelError                a model or its checkpoint is not usable
    │   ├── TowerMissing          the model encodes no texts, or no images, and they are needed
    │   └── CheckpointMismatch    the weights of a checkpoint do not fit its config, or the resumed run
    ├── HubError                  the Hugging Face Hub, or the connection to it
    │   ├── HubUnavailable        no answer, too many requests, or a server error
    │   ├── HubAccessDenied       there is no token, or it lacks the permission
    │   └── HubConflict           the repository holds something that conflicts with the change
    ├── ReportRefused             a report must not be submitted; says why
    ├── WriteFailed               a file or folder cannot be written; another process may be writing it
    ├── NoSuchFile                a file is not there; suggests the nearest; also a FileNotFoundError
    ├── UnknownName               there is no such task, metric, config or source; suggests the nearest
    ├── UnknownScore              a report has no such score; names the nearest that it has; also a KeyError
    └── InvalidOption             an argument is out of range or conflicts with another
        └── ExtraMissing          a package is not installed; has the command; also an ImportError

The command line prints any of these as one message and exits with status 2.
"""

from __future__ import annotations

import difflib
import errno
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = [
    "CheckpointMismatch",
    "CxcEccvError",
    "DataError",
    "DownloadFailed",
    "ExtraMissing",
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
    "NoSuchFile",
    "ReportRefused",
    "RunError",
    "RunTooShallow",
    "ServerUnreachable",
    "SourceMissing",
    "TowerMissing",
    "UnknownIds",
    "UnknownName",
    "UnknownScore",
    "WriteFailed",
    "raise_all",
]


class CxcEccvError(Exception):
    """Base class: catch it to catch everything that the package raises on purpose.

    Names in files may hold control characters or be very long; a message escapes the characters, so that none reaches
    a terminal, and leaves out the middle of a long text.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(cut(escape(cut(text), keep="\n")) if isinstance(text, str) else text for text in args))

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, an error from another process is rebuilt from its text, which some constructors do not take.
        return _rebuild, (type(self), self.args, self.__dict__)


ACTING = ("Cc", "Cs", "Zl", "Zp")
"""Unicode categories that move the cursor, start a line or cannot be encoded."""

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def escape(text: str, keep: str = "") -> str:
    """The text with every character escaped that acts on a terminal, except those to ``keep``."""
    if text.isprintable() and text.isascii():
        return text
    acting = {char for char in text if char in BIDI or unicodedata.category(char) in ACTING}.difference(keep)
    return "".join(char.encode("unicode_escape").decode() if char in acting else char for char in text)


def cut(text: str) -> str:
    """The text, without its middle if it is very long.

    Example:
        >>> len(cut("x" * 1_000_000)), cut("x" * 1_000_000)[6990:7030]
        (10024, 'xxxxxxxxxx … 990,000 characters … xxxxxx')
    """
    if len(text) <= LONGEST_MESSAGE:
        return text
    return f"{text[:BEGINNING]} … {len(text) - LONGEST_MESSAGE:,} characters … {text[BEGINNING - LONGEST_MESSAGE :]}"


LONGEST_MESSAGE = 10_000
BEGINNING = 7_000
"""Most characters of a message, and how many of them come before the gap."""


def _rebuild(kind: type[CxcEccvError], args: tuple[Any, ...], attributes: dict[str, Any]) -> CxcEccvError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class DataError(CxcEccvError):
    """A raw file, or something built from raw files, is not usable."""


class SourceMissing(DataError):
    """A raw file is not on this machine and cannot be downloaded."""


class HashMismatch(DataError):
    """A raw file differs from the one that the catalog describes."""


class DownloadFailed(DataError):
    """The official address did not deliver the file."""


class ServerUnreachable(DownloadFailed):
    """The server of the official address, or the proxy to it, cannot be reached."""


class MalformedSource(DataError):
    """A raw file breaks its format."""

    def __init__(self, path: str | Path, place: str, actual: object, expected: str) -> None:
        self.path = path
        self.place = place
        self.actual = actual
        self.expected = expected
        where = f"{path}, {place}" if place else str(path)
        super().__init__(f"{where}: found {actual}, expected {expected}")


class RunError(CxcEccvError):
    """A model's embeddings, scores or rankings are not usable."""


class MalformedRun(RunError):
    """A run is unreadable, of the wrong type or shape, not finite, or has duplicated ids."""

    def __init__(self, message: str) -> None:
        super().__init__(escape(message))


class UnknownIds(RunError):
    """The run has items that are not in the task."""


class MissingIds(RunError):
    """The run lacks queries or gallery items that the task needs."""


class RunTooShallow(RunError):
    """A ranking ends before the metric can be computed."""


class ModelError(CxcEccvError):
    """A model or its checkpoint is not usable."""


class TowerMissing(ModelError):
    """The model encodes no texts, or no images, and they are needed."""


class CheckpointMismatch(ModelError):
    """The weights of a checkpoint do not fit its config, or the resumed run."""


class HubError(CxcEccvError):
    """A request to the Hugging Face Hub failed."""


class HubUnavailable(HubError):
    """The Hub did not answer, refused too many requests, or had a server error."""


class HubAccessDenied(HubError):
    """There is no token, or it lacks the permission."""


class HubConflict(HubError):
    """The repository holds something that conflicts with the change."""


class ReportRefused(CxcEccvError):
    """A report must not be submitted; the message says why."""


class WriteFailed(CxcEccvError):
    """A file or folder cannot be written, for example since another process is writing it."""


class NoSuchFile(CxcEccvError, FileNotFoundError):
    """A file is not there.

    Example:
        >>> print(NoSuchFile(Path("no folder/clip.npz")))
        no folder/clip.npz: no such file; there is no folder 'no folder'
    """

    def __init__(self, path: Path) -> None:
        folder = path.parent
        hint = ""
        if _is_too_long(path):
            hint = "; a name in this path is longer than file systems allow"
        elif folder.is_dir():
            near = difflib.get_close_matches(path.name[:100], sorted(file.name for file in folder.iterdir()), n=3)
            hint = f"; did you mean {' or '.join(str(folder / name) for name in near)}?" if near else ""
        else:
            hint = f"; there is no folder {str(folder)!r}"
        super().__init__(f"{path}: no such file{hint}")


def refuse_long_name(path: Path) -> None:
    """Raise NoSuchFile if a name in the path is longer than file systems allow, for which pathlib has an OSError."""
    if _is_too_long(path):
        raise NoSuchFile(path)


def _is_too_long(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    except ValueError:  # a NUL character
        return False
    return False


def find_nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like another one, else the one that begins with it or holds it, else None.

    Example:
        >>> find_nearest("eccv", ["eccv_caption", "coco_5k"]), find_nearest("5k", ["coco_5k"]), find_nearest("x", ["y"])
        ('eccv_caption', 'coco_5k', None)
    """
    every = list(names)
    beginning = [each for each in every if each.startswith(name)]
    holding = [each for each in every if name in each]
    near = difflib.get_close_matches(name, every, n=1)
    for longer in (beginning, holding) if name else ():
        near = near or difflib.get_close_matches(name, longer, n=1, cutoff=0)
    return near[0] if near else None


class UnknownName(CxcEccvError):
    """There is no such task, metric, config or source; ``listed`` says which list of the command line has all of them.

    Example:
        >>> print(UnknownName("split", "tset", ["validation", "test"]))
        unknown split 'tset'; did you mean 'test'? Known: validation, test
        >>> print(UnknownName("config", "stss", ["sts", "sis", "sits"], listed="configs"))
        unknown config 'stss'; did you mean 'sts'? To see all: cxc-eccv list configs
    """

    def __init__(self, kind: str, name: object, known: Iterable[str], *, listed: str = "") -> None:
        names = {each.casefold(): each for each in known}
        near = find_nearest(str(name)[:100].casefold(), names)
        hint = f"; did you mean {names[near]!r}?" if near else "."
        known_names = f"To see all: cxc-eccv list {listed}" if listed else f"Known: {', '.join(names.values())}"
        super().__init__(f"unknown {kind} {cut(repr(name))}{hint} {known_names}")


class UnknownScore(CxcEccvError, KeyError):
    """A report has no score of this key."""

    def __str__(self) -> str:
        """The message; that of a KeyError would be in quotes."""
        return str(self.args[0])


class InvalidOption(CxcEccvError):
    """An argument is out of range or conflicts with another."""


class ExtraMissing(InvalidOption, ImportError):
    """A package is not installed; the message has the command that installs it."""


def raise_all(errors: Iterable[CxcEccvError]) -> None:
    """Raise several errors as one, of the first one's type, with a line for each.

    Example:
        >>> raise_all([MissingIds("no images"), RunTooShallow("no depth"), MissingIds("no images")])
        Traceback (most recent call last):
        cxc_eccv.errors.MissingIds: no images
        no depth
    """
    distinct = {str(error): error for error in errors}
    for first in distinct.values():
        raise first if len(distinct) == 1 else type(first)("\n".join(distinct))
