"""The first text by hand of a metric's section, out of its docstring."""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import io
import sys
from collections.abc import Iterator

from cxc_eccv.evaluate_modules.module_cards import lead
from cxc_eccv.metrics.kinds import Spec

__all__ = ["first_sections"]

SECTIONS = """
```text
{formula}
```

```python
{code}
```

```text
{printed}
```

"""


def first_sections(spec: Spec) -> str:
    """Formula and worked example, for the author to write better."""
    code = "\n".join([*_imports(spec), "", *_statements(spec)])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})  # noqa: S102 - the docstring of our own metric, which pytest runs too
    _, _, formula = lead(spec.description).partition("\n\n")
    return SECTIONS.format(
        formula=formula or lead(spec.description),
        code=code,
        printed=printed.getvalue().strip("\n"),
    )


def _examples(spec: Spec) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(spec.description)


def _statements(spec: Spec) -> Iterator[str]:
    """The example's lines; what the docstring shows is printed."""
    for example in _examples(spec):
        source = example.source.rstrip("\n")
        yield f"print({source})" if example.want and not source.startswith("print(") else source


def _imports(spec: Spec) -> list[str]:
    """One import for each name that the example takes from the metric's module."""
    module = vars(sys.modules[spec.function.__module__])
    trees = [ast.parse(example.source) for example in _examples(spec)]
    names = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}
    lines = []
    for name in sorted(names & module.keys()):
        value = module[name]
        if inspect.ismodule(value):
            lines.append(f"import {value.__name__} as {name}")
        else:
            lines.append(f"from {getattr(value, '__module__', spec.function.__module__)} import {name}")
    return lines
