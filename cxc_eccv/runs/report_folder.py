"""A model's file where the folder of its report was named instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cxc_eccv.errors import MalformedRun, refuse_long_name

REPORT, OPTIONS = "report.json", "run.yaml"
ARRAYS = (".npz", ".safetensors")


def find_files(path: str | Path) -> list[Path]:
    """The files of the model of a report's folder, from its ``run.yaml`` or in the folder; else the path itself."""
    path = Path(path)
    refuse_long_name(path)
    folder = path.parent if path.name == REPORT else path
    if not (folder / REPORT).is_file():
        return [path]
    options = _read_options(folder / OPTIONS)
    named = options.get("files", [])
    files = [folder / name for name in ([named] if isinstance(named, str) else named)]
    files = files or sorted(file for file in folder.iterdir() if file.suffix in ARRAYS)
    if files and all(file.is_file() for file in files) and (named or len(files) == 1):
        return files
    raise MalformedRun(f"{path} is a report, not a model's file. {_advise(folder, files, options)}")


def _read_options(path: Path) -> dict[str, Any]:
    """The options of the command that wrote the report; none where there is no such file."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


def _advise(folder: Path, files: list[Path], options: dict[str, Any]) -> str:
    """What to do about a folder that leads to no file."""
    if files:
        return f"Name the file itself; the report's was {' or '.join(map(str, files))}"
    if isinstance(model := options.get("model"), str):
        images = f" --images {options['images']}" if "images" in options else ""
        command = f"cxc-eccv encode --model {model}{images} --output {folder.name}.npz"
        return f"Write its embeddings to a file first: {command}"
    return "Name the file of the model's embeddings, scores or rankings"
