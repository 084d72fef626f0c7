"""Google-style docstrings, taken apart."""

from __future__ import annotations

import inspect
import re

__all__ = ["arguments", "lead", "section"]

HEADING = re.compile(r"^(Args|Returns|Raises|References|Example):$", re.MULTILINE)
ENTRY = re.compile(r"^(\w+): ", re.MULTILINE)


def lead(docstring: str) -> str:
    r"""Everything before the first section.

    Example:
        >>> lead("One.\n\nTwo.\n\nArgs:\n    k: depth.")
        'One.\n\nTwo.'
    """
    return HEADING.split(docstring)[0].strip()


def section(docstring: str, heading: str) -> str:
    r"""The text of one section, dedented; empty where there is none.

    Example:
        >>> section("One.\n\nReturns:\n    (Q,) values.", "Returns")
        '(Q,) values.'
    """
    parts = HEADING.split(docstring)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    return inspect.cleandoc("\n" + texts.get(heading, "")).strip()


def arguments(docstring: str) -> dict[str, str]:
    r"""Argument to its description, on one line.

    Example:
        >>> arguments("One.\n\nArgs:\n    k: depth,\n        at least 1.\n    seed: any.")
        {'k': 'depth, at least 1.', 'seed': 'any.'}
    """
    parts = ENTRY.split(section(docstring, "Args"))
    return {name: " ".join(text.split()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}
