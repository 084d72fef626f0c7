"""One self-contained source file from a script and the parts of this package that it uses.

The script's imports from the package are replaced by the source text of the definitions behind them, and of all that
those use in turn. Names that clash are renamed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import cxc_eccv
from metric_modules.source import Import, Source, imported

__all__ = ["inline"]

PACKAGE = cxc_eccv.__name__
SCRIPT = "script"
Definition = tuple[str, str]
"""Module and name."""


def inline(script: str, header: str) -> str:
    r"""The script with all it uses of this package inside.

    Args:
        script: source that begins with a docstring.
        header: comment lines for the top.

    Raises:
        ImportError: the script, or what it uses, imports this package in a way that cannot be followed.

    Example:
        >>> script = "'''Adds.'''\nfrom cxc_eccv.metrics.rsum import rsum as total\nprint(total([0.5] * 6))"
        >>> text = inline(script, "# An example.")
        >>> "def rsum(" in text, "print(rsum([0.5] * 6))" in text, "from cxc_eccv" in text
        (True, True, False)
    """
    return _Bundle(Source(SCRIPT, script)).text(header)


class _Bundle:
    """Collects the definitions that a script needs, and writes them out module by module, lowest first."""

    def __init__(self, script: Source) -> None:
        self.script = script
        self.sources = {SCRIPT: script}
        self.wanted: set[Definition] = set()
        self.below: dict[str, dict[str, None]] = {}  # of each module those whose definitions its own use, in order
        self.external: dict[str, Import] = {}
        for node in self._statements():
            self._follow(script, node)
        self.modules = list(self._dependencies_first(SCRIPT, set()))[:-1]
        self.names = self._unique_names()

    def text(self, header: str) -> str:
        """The finished file."""
        docstring = self.script.renamed(self.script.body[0], {})
        imports = ["from __future__ import annotations", "", *self._import_lines()]
        statements = [self._renamed(self.script, node) for node in self._statements()]
        return (
            "\n\n\n".join([f"{header}\n\n{docstring}\n\n" + "\n".join(imports), *self._sections(), *statements]) + "\n"
        )

    def _statements(self) -> list[ast.stmt]:
        return [node for node in self.script.body[1:] if not isinstance(node, ast.Import | ast.ImportFrom)]

    def _sections(self) -> list[str]:
        sections = []
        for module in self.modules:
            source = self.sources[module]
            nodes = [node for name, node in source.definitions.items() if (module, name) in self.wanted]
            texts = [self._renamed(source, node) for node in dict.fromkeys(nodes)]  # one may define several names
            sections += [f"# From {module}.", *texts] if texts else []
        return sections

    def _follow(self, source: Source, node: ast.stmt) -> None:
        """Want everything that a statement uses."""
        for inner in () if isinstance(node, ast.Try) else ast.walk(node):
            if any(_is_ours(module) for _, (module, _) in imported(inner)):
                raise ImportError(f"{source.name}: an import of {PACKAGE} inside a definition cannot be followed")
        for name in source.uses(node):
            home, original = self._home(source, name)
            if original is None:
                self._note_external(name, source.imports[name])
                continue
            self.below.setdefault(source.name, {})[home] = None
            if home != SCRIPT and (home, original) not in self.wanted:
                definition = self.sources[home].definitions[original]
                self.wanted.update((home, name) for name in _own_names(self.sources[home], definition))
                self._follow(self.sources[home], definition)

    def _home(self, source: Source, name: str) -> Import:
        """Module and name of the definition behind a name; no name where it comes from outside the package."""
        while name not in source.definitions:
            if name in self.script.definitions:  # what the script defines stands for what the package would find
                return SCRIPT, name
            module, original = source.imports[name]
            if not _is_ours(module):
                return module, None
            if original is None:
                raise ImportError(f"{source.name}: import {module} cannot be followed; import names from it")
            if module == source.name:
                raise ImportError(f"{module} imports {original} from itself; import what it has by name")
            source = self._source(module)
            name = original
            if name not in source.definitions and name not in source.imports:
                raise ImportError(f"{module} defines no {name} at its top level")
        return source.name, name

    def _source(self, module: str) -> Source:
        return self.sources.setdefault(module, _read_module(module))

    def _dependencies_first(self, module: str, entered: set[str]) -> Iterator[str]:
        """A module after all whose definitions its own use."""
        entered.add(module)
        for below in self.below.get(module, ()):
            if below not in entered:
                yield from self._dependencies_first(below, entered)
        yield module

    def _note_external(self, local: str, origin: Import) -> None:
        if self.external.setdefault(local, origin) != origin:
            raise ImportError(f"{local} stands for both {self.external[local]} and {origin}")

    def _unique_names(self) -> dict[Definition, str]:
        taken = {*self.external, *self.script.definitions}
        names: dict[Definition, str] = {}
        for module, name in sorted(self.wanted):
            names[module, name] = name if name not in taken else f"{name}_{module.rpartition('.')[2]}"
            taken.add(names[module, name])
        return names

    def _renamed(self, source: Source, node: ast.stmt) -> str:
        homes = {name: self._home(source, name) for name in [*source.uses(node), *_own_names(source, node)]}
        ours = {name: (home, original) for name, (home, original) in homes.items() if original is not None}
        return source.renamed(node, {name: self.names.get(home, name) for name, home in ours.items()})

    def _import_lines(self) -> list[str]:
        named: dict[str, list[str]] = {}
        for local, (module, original) in sorted(self.external.items()):
            if original is not None:
                named.setdefault(module, []).append(original if original == local else f"{original} as {local}")
        whole = [(local, module) for local, (module, original) in self.external.items() if original is None]
        lines = [f"import {module}" + ("" if module == local else f" as {local}") for local, module in sorted(whole)]
        return [*lines, *(f"from {module} import {', '.join(names)}" for module, names in sorted(named.items()))]


@cache
def _read_module(module: str) -> Source:
    """Metrics share most of what they use: nothing is parsed twice."""
    path = Path(cxc_eccv.__file__).parent.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return Source(module, file.read_text(encoding="utf-8"))


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == PACKAGE


def _own_names(source: Source, node: ast.stmt) -> list[str]:
    return [name for name, defined in source.definitions.items() if defined is node]
