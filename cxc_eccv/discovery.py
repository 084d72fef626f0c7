"""Finds the declarations in the modules of a package, and what studies add to the core.

Every command imports this module, ``--help`` too, so it needs no NumPy.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from importlib.machinery import PathFinder
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Protocol, TypeVar

STUDIES = "cxc_eccv.studies"


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Declaration = TypeVar("Declaration", bound=_Named)


def import_modules(package: ModuleType) -> dict[str, ModuleType]:
    """Import the modules of a package; name to module, in alphabetical order."""
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    return {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}


def study_modules(place: str) -> list[ModuleType]:
    """Import the module or package ``place`` of every study that has it, in order of the studies' names."""
    # Look only beside this file, as the finder of an editable installation may know the studies of another folder.
    if PathFinder.find_spec(STUDIES, [str(Path(__file__).parent)]) is None:
        return []
    studies = importlib.import_module(STUDIES)
    names = sorted(f"{STUDIES}.{info.name}.{place}" for info in pkgutil.iter_modules(studies.__path__))
    return [importlib.import_module(name) for name in names if find_spec(name) is not None]


def find_declared(
    package: ModuleType, constant: str, kind: type[Declaration], *further: ModuleType
) -> Mapping[str, Declaration]:
    """Name to the declaration in ``constant`` of every module of these packages; its plural holds several."""
    declared: dict[str, Declaration] = {}
    modules = [import_modules(place).items() for place in (package, *further)]
    for name, module in chain.from_iterable(modules):
        single = [getattr(module, constant)] if hasattr(module, constant) else []
        for entry in (*single, *getattr(module, f"{constant}S", ())):
            if not isinstance(entry, kind):
                raise ImportError(
                    f"{module.__name__}: its {constant} is a {type(entry).__name__}, not a {kind.__name__}"
                )
            if entry in single and entry.name != name:
                raise ImportError(f"{module.__name__}: its {constant} is named {entry.name!r}, not like its file")
            if entry.name in declared:
                raise ImportError(f"{module.__name__}: there is another {constant} named {entry.name!r}")
            declared[entry.name] = entry
    return MappingProxyType(dict(sorted(declared.items())))
