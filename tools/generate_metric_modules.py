"""Writes ``metrics/``, the ``evaluate`` modules of all metrics, from their declarations in ``cxc_eccv/metrics/``.

python tools/generate_metric_modules.py            # write
python tools/generate_metric_modules.py --check    # exit with 1 if a file is out of date
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from metric_modules.script import module_script

from cxc_eccv import registry
from cxc_eccv.errors import CxcEccvError
from cxc_eccv.evaluate_modules.module_cards import Description

FOLDER = Path(__file__).parents[1] / "metrics"


def main() -> None:
    """Write or check the modules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file differs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the modules")
    options = parser.parse_args()
    try:
        files = metric_files()
    except CxcEccvError as error:
        parser.exit(2, f"{error}\n")
    stale = differences(options.folder, files)
    if options.check:
        if stale:
            advice = f"{options.folder} is not up to date; run python tools/generate_metric_modules.py"
            parser.exit(1, "\n".join([*stale, advice, ""]))
        return
    write_files(options.folder, files)
    print(f"{len(files)} files, {len(stale)} changed")


def metric_files() -> dict[str, bytes]:
    """Path inside the folder to content, for every registered metric."""
    return {
        f"{name}/{name}.py": module_script(Description(spec)).encode()
        for name, spec in registry.metric_functions().items()
    }


def differences(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """A line for each file that is missing, different, or not generated."""
    present = _present(folder)
    missing = [f"{path}: missing" for path in files if path not in present]
    changed = [f"{path}: differs" for path, text in files.items() if path in present and present[path] != text]
    return [*missing, *changed, *(f"{path}: not a generated file" for path in present if path not in files)]


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write these files into the folder and delete all others."""
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


if __name__ == "__main__":
    main()
