"""The base of the ``evaluate`` modules in ``metrics/``, and their place."""

from __future__ import annotations

from pathlib import Path

from cxc_eccv.errors import UnknownName
from cxc_eccv.extras import require

__all__ = ["MODULES", "metric", "module_folder"]

INSTALLED = Path(__file__).parent / "modules"
MODULES_FOLDER = INSTALLED if INSTALLED.is_dir() else Path(__file__).parents[2] / "metrics"
"""Folder with one folder per metric: ``metrics/`` of a checkout, or its copy in an installed package."""


def metric(name: str) -> str:
    """The path of a metric's module for Hugging Face's ``evaluate``: ``evaluate.load(ce.metric("map_at_r"))``.

    The extra ``metrics`` installs ``evaluate``.

    Args:
        name: name of a metric, such as ``map_at_r``.

    Returns:
        The path of the module's folder.

    Raises:
        InvalidOption: ``evaluate`` is not installed.
        UnknownName: the metric is unknown; the message suggests the nearest name.

    Example:
        >>> Path(metric("map_at_r")).name
        'map_at_r'
    """
    require("evaluate", "metrics", f"the module of the metric {name!r} needs")
    return str(module_folder(name))


def module_folder(name: str) -> Path:
    """The folder of a metric's module, whether ``evaluate`` is installed or not."""
    known = sorted(folder.name for folder in MODULES_FOLDER.iterdir() if folder.is_dir())
    if name not in known:
        raise UnknownName("metric", name, known, listed="metrics")
    return MODULES_FOLDER / name
