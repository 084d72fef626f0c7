"""Where a result is to be written: checked before the work starts."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cxc_eccv.errors import InvalidOption
from cxc_eccv.writing import locked, refuse_unwritable

__all__ = ["checked_output", "held", "parts_folder"]


def checked_output(output: str | Path, suffixes: Collection[str]) -> Path:
    """The path, once it is known that it can be written.

    Args:
        output: of a file.
        suffixes: that it may have.

    Raises:
        InvalidOption: another suffix, no such folder, or a folder of that name.
        WriteFailed: the folder may not be written, or the name is too long.

    Example:
        >>> checked_output("clip.csv", [".npz"])
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: output clip.csv: the name must end in .npz
    """
    path = Path(output)
    if path.suffix.lower() not in suffixes:
        raise InvalidOption(f"output {path}: the name must end in {' or '.join(suffixes)}")
    if not path.parent.is_dir():
        raise InvalidOption(f"output {path}: there is no folder {path.parent}; make it first")
    refuse_unwritable(path, file=True)
    return path


def held(path: Path | None, rank: int) -> AbstractContextManager[None]:
    """Keep other runs from writing the same output, and from taking the shards of this one, meanwhile.

    Args:
        path: of the output, or None.
        rank: of this process; the first one holds it for all.

    Raises:
        WriteFailed: another run writes it.
    """
    return nullcontext() if path is None or rank else locked(parts_folder(path))


def parts_folder(path: Path) -> Path:
    """Where the finished shards of an output wait until it is whole.

    Example:
        >>> parts_folder(Path("runs/clip.npz")).name
        'clip.npz.parts'
    """
    return path.with_name(f"{path.name}.parts")
