"""Modules import each other one way: lazy imports and those for type checkers count too."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import cxc_eccv

ROOT = Path(cxc_eccv.__file__).parent


def name_module(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {name_module(path): path for path in ROOT.rglob("*.py")}


def find_imports(module, text):
    """The modules that a module's text imports, wherever the statements stand."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import, which this test does not follow"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else node.module)
    return found.intersection(MODULES) - {module}


def test_no_circle_of_imports():
    graph = {name: find_imports(name, path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    assert sum(map(len, graph.values())) > 1_000  # the imports are found
    TopologicalSorter(graph).prepare()  # CycleError names the modules of a circle


def test_imports_in_functions_and_for_types_are_found():
    text = "if TYPE_CHECKING:\n    from cxc_eccv.report import Report\ndef f():\n    from cxc_eccv.cli import demo\n"
    assert find_imports("cxc_eccv.new", text) == {"cxc_eccv.report", "cxc_eccv.cli.demo"}
