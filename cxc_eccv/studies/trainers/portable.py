"""Saves a model's code beside its weights, so that transformers loads it without this package."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from transformers import PreTrainedConfig

from cxc_eccv.version import __version__

PACKAGE = "cxc_eccv."

HEAD = '''"""The code of this model, for AutoModel.from_pretrained(FOLDER, trust_remote_code=True).

Written by cxc_eccv {version} (Apache License 2.0) from its modules {modules}.
"""

from __future__ import annotations

'''


class PortableConfig(PreTrainedConfig):
    """A config that is saved with the code of its classes in ``MODEL_TYPE.py``; there its base is PreTrainedConfig.

    ``auto_classes`` maps the names of auto classes to the paths of the classes that they load.
    """

    auto_classes: ClassVar[dict[str, str]] = {}

    def save_pretrained(self, save_directory: str | PathLike[str], *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - transformers' own
        """Save the config with the code."""
        Path(save_directory).mkdir(parents=True, exist_ok=True)
        path = Path(save_directory, f"{self.model_type}.py")
        path.write_text(bundle_code(_path(type(self)), *self.auto_classes.values()), encoding="utf-8")
        super().save_pretrained(save_directory, *arguments, **options)

    def to_dict(self) -> dict[str, Any]:
        """The config with the ``auto_map`` by which transformers finds the code."""
        classes = {"AutoConfig": _path(type(self)), **self.auto_classes}
        names = {auto: f"{self.model_type}.{path.rpartition('.')[2]}" for auto, path in classes.items()}
        return super().to_dict() | {"auto_map": names}


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


@cache
def bundle_code(*paths: str) -> str:
    """One module with these classes and functions of the package, and all of the package that they use.

    Example:
        >>> code = bundle_code("cxc_eccv.errors.TowerMissing")
        >>> [line for line in code.splitlines() if line.startswith("class ")]
        ['class CxcEccvError(Exception):', 'class ModelError(CxcEccvError):', 'class TowerMissing(ModelError):']
    """
    bundle = _Bundle()
    for path in paths:
        module, _, name = path.rpartition(".")
        bundle.add(module, name)
    modules = [module for module in order_modules(bundle.uses) if module in bundle.parts]
    head = HEAD.format(version=__version__, modules=", ".join(sorted(modules)))
    parts = [text for module in modules for _, text in sorted(bundle.parts[module].items())]
    return "\n\n\n".join([head + "\n".join(sorted(bundle.imports)), *parts]) + "\n"


def order_modules(uses: Mapping[str, Set[str]]) -> list[str]:
    """All modules, each after those that it uses; the same order in every process.

    Example:
        >>> order_modules({"model": {"config", "errors"}, "config": {"errors"}})
        ['errors', 'config', 'model']
    """
    # Sets of texts have another order in each process.
    graph = {module: sorted(uses[module]) for module in sorted(uses)}
    return list(TopologicalSorter(graph).static_order())


@dataclass
class _Bundle:
    """The import lines, the statements of each module by line, and the modules that each module uses."""

    imports: set[str] = field(default_factory=set)
    parts: dict[str, dict[int, str]] = field(default_factory=dict)
    uses: dict[str, set[str]] = field(default_factory=dict)

    def add(self, module: str, name: str) -> str:
        """Add what a module defines or imports by a name, and all that this uses; the module that defines it."""
        statement = _statements(module)[name]
        if isinstance(statement, ast.Import | ast.ImportFrom):
            return self._add_import(statement, name)
        lines = self.parts.setdefault(module, {})
        decorators = getattr(statement, "decorator_list", [])
        first = min(node.lineno for node in (statement, *decorators))
        if first not in lines:
            lines[first] = "\n".join(_source(module)[first - 1 : statement.end_lineno])
            used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            found = {self.add(module, each) for each in used & _statements(module).keys()}
            self.uses.setdefault(module, set()).update(found - {module})
        return module

    def _add_import(self, statement: ast.Import | ast.ImportFrom, name: str) -> str:
        alias = next(each for each in statement.names if _bound(each) == name)
        source = getattr(statement, "module", None)
        if source == __name__:
            self.imports.add(f"from transformers import PreTrainedConfig as {name}")
        elif source is not None and source.startswith(PACKAGE):
            return self.add(source, name)
        else:
            single = ast.Import([alias]) if source is None else ast.ImportFrom(source, [alias], 0)
            self.imports.add(ast.unparse(single))
        return ""


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


@cache
def _source(module: str) -> list[str]:
    import_module(module)
    return Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8").split("\n")


@cache
def _statements(module: str) -> dict[str, ast.stmt]:
    """The statement that binds each name at the top of a module."""
    bound: dict[str, ast.stmt] = {}
    for statement in ast.parse("\n".join(_source(module))).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            names = [_bound(alias) for alias in statement.names]
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names = [statement.name]
        else:
            stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            names = [node.id for node in stored if isinstance(node.ctx, ast.Store)]
        bound |= dict.fromkeys(names, statement)
    return bound
