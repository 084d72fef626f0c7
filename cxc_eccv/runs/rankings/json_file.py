"""Rankings in JSON: ``{"i2t": {query id: [item ids]}, "t2i": {...}}``, or one direction to a file."""

from __future__ import annotations

from pathlib import Path

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.runs.checks import json_of, sha256_of, text_of
from cxc_eccv.runs.rankings.ranked_lists import RankedLists
from cxc_eccv.runs.rankings.rankings import direction_of
from cxc_eccv.types import DIRECTIONS

__all__ = ["read_rankings_json"]


def read_rankings_json(path: Path, direction: str | None = None) -> dict[str, RankedLists]:
    """Direction to its rankings.

    Args:
        path: the file; query ids are keys, hence strings of digits, and item ids are numbers, best first.
        direction: of a file that holds one direction alone and is not named after it.

    Raises:
        MalformedRun: not JSON, a key given twice, or rankings as :class:`RankedLists` refuses them.
        InvalidOption: ``direction`` is given although the file names its directions.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "run.json"
        ...     _ = path.write_text('{"t2i": {"30": [5, 6]}}')
        ...     read_rankings_json(path)["t2i"].items.tolist()
        [5, 6]
    """
    content = json_of(path, text_of(path))
    if not isinstance(content, dict) or not content:
        kind = "nothing" if content == {} else f"a {type(content).__name__}"
        raise MalformedRun(f'{path}: holds {kind}; need {{"i2t": {{query id: [item ids]}}, "t2i": {{...}}}}')
    origin = {"path": path, "sha256": sha256_of(path)}
    if any(key.isdecimal() for key in content):
        only = direction_of(path, direction)
        return {only: RankedLists.of(content, f"{path}, {only}", **origin)}
    unknown = [key for key in content if key not in DIRECTIONS]
    if unknown:
        raise MalformedRun(
            f"{path}: key {unknown[0]!r} is neither a direction ({', '.join(DIRECTIONS)}) nor a query id; use the "
            "COCO ids of images and captions"
        )
    if direction is not None:
        raise InvalidOption(f"{path}: names its directions itself ({', '.join(content)}); leave out direction")
    return {name: RankedLists.of(lists, f"{path}, {name}", **origin) for name, lists in content.items()}
