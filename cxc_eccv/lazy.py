"""Names of a package that are imported on first use, so that importing the package is quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

from cxc_eccv.extras import needs_extra


def import_on_first_use(package: str, homes: Mapping[str, str], extra: str = "") -> Callable[[str], object]:
    """The ``__getattr__`` of a package.

    Args:
        package: the package's ``__name__``.
        homes: name to the module that defines it.
        extra: the extra that the modules need; without it, ``ExtraMissing`` says how to install it.

    Example:
        >>> import_on_first_use("cxc_eccv", {"Library": "cxc_eccv.sources.library"})("Library").__name__
        'Library'
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        extras = [extra] if extra else []
        with needs_extra(*extras, subject=f"{package.rpartition('.')[2]} needs"):
            value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
