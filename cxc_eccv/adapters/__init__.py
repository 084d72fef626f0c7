"""What the ``evaluate`` modules in ``metrics/`` run on, and where these are."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from cxc_eccv.errors import InvalidOption, UnknownName

__all__ = ["MODULES", "metric", "module_folder"]

INSTALLED = Path(__file__).parent / "modules"
MODULES = INSTALLED if INSTALLED.is_dir() else Path(__file__).parents[2] / "metrics"
"""A folder per metric: ``metrics/`` of a checkout, which a wheel carries inside the package."""


def metric(name: str) -> str:
    """The module of a metric: ``evaluate.load(ce.metric("map_at_r"))``.

    Hugging Face's ``evaluate`` comes with the extra ``metrics``.

    Args:
        name: of a metric, such as ``map_at_r``.

    Returns:
        The path of its folder.

    Raises:
        InvalidOption: ``evaluate`` is not installed.
        UnknownName: no such metric; the message suggests the nearest.

    Example:
        >>> Path(metric("map_at_r")).name
        'map_at_r'
    """
    if find_spec("evaluate") is None:
        raise InvalidOption(
            f"the module of the metric {name!r} needs evaluate, which is not installed: pip install 'cxc_eccv[metrics]'"
        )
    return str(module_folder(name))


def module_folder(name: str) -> Path:
    """The folder of a metric's ``evaluate`` module, whether ``evaluate`` is there or not."""
    known = sorted(folder.name for folder in MODULES.iterdir() if folder.is_dir())
    if name not in known:
        raise UnknownName("metric", name, known)
    return MODULES / name
