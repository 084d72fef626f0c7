"""The one discovery: what the modules of a package declare about themselves, each in one constant."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Protocol, TypeVar

__all__ = ["find_declared"]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Declaration = TypeVar("Declaration", bound=_Named)


def find_declared(package: ModuleType, constant: str, kind: type[Declaration]) -> Mapping[str, Declaration]:
    """The constant of every module of a package that has one, by name, in alphabetical order.

    Modules are found by their place, on every folder of the package's ``__path__``; nothing lists them. A family that
    differs in little may stand in one module, under the plural of the constant; the names begin with that of the file.

    Example:
        >>> import cxc_eccv.metrics
        >>> from cxc_eccv.metrics.spec import Spec
        >>> next(iter(find_declared(cxc_eccv.metrics, "SPEC", Spec)))
        'bootstrap_spearman'
    """
    found: dict[str, Declaration] = {}
    for name in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        module = importlib.import_module(f"{package.__name__}.{name}")
        own, family = getattr(module, constant, None), getattr(module, f"{constant}S", ())
        for entry in (*family, *([] if own is None else [own])):
            if not isinstance(entry, kind):
                raise ImportError(
                    f"{module.__name__}: its {constant} is no {kind.__name__}, but {type(entry).__name__}"
                )
            if entry.name != name and not (entry in family and entry.name.startswith(f"{name}_")):
                raise ImportError(f"{module.__name__}: its {constant} is named {entry.name!r}, not as its file")
            found[entry.name] = entry
    return MappingProxyType(dict(sorted(found.items())))
