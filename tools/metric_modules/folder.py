"""All files of ``metrics/``: what they should be, where they differ, and writing them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cxc_eccv import registry
from cxc_eccv.adapters.described.description import Description
from metric_modules.script import module_script

__all__ = ["differences", "metric_files", "write_files"]


def metric_files() -> dict[str, bytes]:
    """Path inside that folder to content, for every metric of the registry.

    Raises:
        InvalidOption: a metric needs something that no kind of module offers.
    """
    return {f"{name}/{name}.py": module_script(Description(spec)).encode() for name, spec in registry.metrics().items()}


def differences(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """One line for each file that is missing, different, or not generated."""
    present = _present(folder)
    missing = [f"{path}: missing" for path in files if path not in present]
    changed = [f"{path}: differs" for path, text in files.items() if path in present and present[path] != text]
    return [*missing, *changed, *(f"{path}: not a generated file" for path in present if path not in files)]


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make the folder hold these files and no others."""
    for path in _present(folder):
        if path not in files:
            (folder / path).unlink()
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text)
    for child in folder.iterdir():
        if child.is_dir() and not any(child.iterdir()):
            child.rmdir()


def _present(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
