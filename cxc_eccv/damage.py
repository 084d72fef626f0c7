"""What damaged files are refused with: one table, from the error of a library to what is said about the file."""

from __future__ import annotations

import gzip
import json
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from safetensors import SafetensorError

from cxc_eccv.errors import MalformedRun, MalformedSource

REFUSALS: Mapping[type[Exception], tuple[str, str]] = {
    zipfile.BadZipFile: ("no readable archive", "a complete zip archive"),
    gzip.BadGzipFile: ("incomplete or damaged data", "a complete gzip file"),
    zlib.error: ("incomplete or damaged data", "a complete compressed file"),
    EOFError: ("incomplete or damaged data", "a complete compressed file"),
    SafetensorError: ("no readable safetensors file", "a complete safetensors file"),
    pa.ArrowException: ("no readable Parquet file", "a complete Parquet file"),
    UnicodeDecodeError: ("text that is not UTF-8", "UTF-8 text"),
    json.JSONDecodeError: ("no JSON", "valid JSON"),
    tomllib.TOMLDecodeError: ("no TOML", "valid TOML"),
    SyntaxError: ("a header that NumPy cannot read", "a complete npy file"),
    tokenize.TokenError: ("a header that NumPy cannot read", "a complete npy file"),
    RecursionError: ("lists or objects nested too deep", "a few levels"),
}
"""Error of a library to what is found in a file and what is expected; a file of a run may be saved again."""

LONGEST_REASON = 300
"""Most characters of a library's message, which may quote long names and headers."""


@contextmanager
def refuse_damage(path: Path, place: str = "", expected: str = "") -> Iterator[None]:
    """Raise MalformedSource, of this place in a file, for the errors of :data:`REFUSALS`.

    Args:
        path: the file.
        place: the place in it, or nothing.
        expected: what the file should be, instead of what the table says.

    Example:
        >>> with refuse_damage(Path("labels.json"), "line 3"):
        ...     json.loads("[1")
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedSource: labels.json, line 3: found no JSON (Expecting ',' delimiter: ...
    """
    try:
        yield
    except tuple(REFUSALS) as error:
        found, usual = _find_refusal(error)
        raise MalformedSource(path, place, f"{found} ({_shorten(error)})", expected or usual) from None


@contextmanager
def refuse_damaged_run(path: Path) -> Iterator[None]:
    """Raise MalformedRun for the errors of :data:`REFUSALS`."""
    try:
        yield
    except tuple(REFUSALS) as error:
        found, _ = _find_refusal(error)
        message = f"{path}: {found}, cut short or damaged ({_shorten(error)}); save it again"
        raise MalformedRun(message) from None


def _find_refusal(error: Exception) -> tuple[str, str]:
    return next(refusal for kind, refusal in REFUSALS.items() if isinstance(error, kind))


def _shorten(error: Exception) -> str:
    return str(error).partition("\n")[0][:LONGEST_REASON]
