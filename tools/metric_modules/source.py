"""Python source taken apart into top-level definitions and imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

__all__ = ["Import", "Source", "imported"]

Import = tuple[str, str | None]
"""Module and imported name; None where the module itself is imported."""

LINTER_COMMENT = re.compile(r"  # (noqa|type: ignore)\b.*$", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    r"""A parsed module.

    Attributes:
        name: dotted name.
        text: its source.

    Example:
        >>> source = Source("example", "from math import pi as p\ndef area(r):\n    return p * r * r\n")
        >>> source.imports, source.uses(source.definitions["area"])
        ({'p': ('math', 'pi')}, ['p'])
        >>> print(source.renamed(source.definitions["area"], {"area": "disc", "p": "pi"}))
        def disc(r):
            return pi * r * r
    """

    name: str
    text: str

    @cached_property
    def body(self) -> list[ast.stmt]:
        """Top-level statements."""
        return ast.parse(self.text).body

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        """Name to statement of everything defined at the top level, in order."""
        return {name: node for node in self.body for name in _defined(node)}

    @cached_property
    def imports(self) -> dict[str, Import]:
        """Local name to what is imported at the top level."""
        return dict(imported_name for node in self.body for imported_name in imported(node))

    def uses(self, node: ast.stmt) -> list[str]:
        """Names in a statement that this module defines or imports, each once."""
        return [name for name in _names_in(node) if name in self.definitions or name in self.imports]

    def renamed(self, node: ast.stmt, names: Mapping[str, str]) -> str:
        """A statement's text, decorators and describing string included, with some of its names replaced."""
        if isinstance(node, ast.Try):
            return _without_import(node, names)
        lines = self.text.splitlines()
        for inner in ast.walk(node):
            if isinstance(inner, ast.arg) and names.get(inner.arg, inner.arg) != inner.arg:
                raise ImportError(
                    f"{self.name}, line {inner.lineno}: {inner.arg} must be renamed and is an argument too"
                )
        for line, column, name in sorted(self._names(node), reverse=True):
            head = lines[line - 1].encode()[:column]
            tail = lines[line - 1].encode()[column + len(name.encode()) :]
            lines[line - 1] = head.decode() + names.get(name, name) + tail.decode()
        first, last = self._lines(node)
        return LINTER_COMMENT.sub("", "\n".join(lines[first - 1 : last]))

    def _names(self, node: ast.stmt) -> Iterator[tuple[int, int, str]]:
        """Line, byte column and text of every name in a statement."""
        yield from (
            (inner.lineno, inner.col_offset, inner.id) for inner in ast.walk(node) if isinstance(inner, ast.Name)
        )
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, self.text.splitlines()[node.lineno - 1].index(node.name), node.name

    def _lines(self, node: ast.stmt) -> tuple[int, int]:
        first = min([node.lineno, *(inner.lineno for inner in getattr(node, "decorator_list", []))])
        following = self.body[self.body.index(node) + 1 :][:1]
        last = following[0] if following and _is_string(following[0]) else node
        return first, last.end_lineno or last.lineno


def imported(node: ast.AST) -> Iterator[tuple[str, Import]]:
    """Local name and origin of each name that a statement imports.

    Example:
        >>> list(imported(ast.parse("import numpy as np").body[0]))
        [('np', ('numpy', None))]
    """
    if isinstance(node, ast.ImportFrom) and node.module != "__future__":
        yield from ((alias.asname or alias.name, (node.module or "", alias.name)) for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from ((alias.asname or alias.name.split(".")[0], (alias.name, None)) for alias in node.names)


@cache
def _names_in(node: ast.stmt) -> tuple[str, ...]:
    return tuple(dict.fromkeys(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)))


def _without_import(node: ast.Try, names: Mapping[str, str]) -> str:
    """What stands for an attempt to import, in a file that is alone: nothing was found."""
    attempted = [names.get(name, name) for name in _names_attempted(node)]
    fallback = [statement for handler in node.handlers for statement in handler.body]
    for inner in (inner for statement in fallback for inner in ast.walk(statement)):
        if isinstance(inner, ast.Name):
            inner.id = names.get(inner.id, inner.id)
    return "\n".join([" = ".join([*attempted, "None"]), *map(ast.unparse, fallback)])


def _names_attempted(node: ast.Try) -> list[str]:
    return [name for statement in node.body for name, _ in imported(statement)]


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Try):
        fallback = [name for handler in node.handlers for statement in handler.body for name in _defined(statement)]
        return [*_names_attempted(node), *fallback]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    inner = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return [node.id for node in inner if isinstance(node.ctx, ast.Store) and node.id != "__all__"]


def _is_string(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
