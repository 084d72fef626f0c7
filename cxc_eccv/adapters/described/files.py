"""The files of a metric's Space: its module, and what is made from its declaration when it is pushed."""

from __future__ import annotations

import shutil
from pathlib import Path

from cxc_eccv import registry
from cxc_eccv.adapters import module_folder
from cxc_eccv.adapters.described.card import metric_card
from cxc_eccv.adapters.described.description import Description
from cxc_eccv.adapters.described.space import requirements, space_app

__all__ = ["write_space"]


def write_space(name: str, parent: Path) -> Path:
    """Write the Space of a metric into a folder of its name.

    Raises:
        UnknownName: no such metric; the message suggests the nearest.
    """
    folder, described = parent / name, Description(registry.metric(name))
    shutil.copytree(module_folder(name), folder, ignore=shutil.ignore_patterns("__pycache__"))
    texts = {
        "app.py": space_app(described),
        "README.md": metric_card(described),
        "requirements.txt": requirements(described),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8", newline="\n")
    return folder
