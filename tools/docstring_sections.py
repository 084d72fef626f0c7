"""How mkdocstrings reads our docstrings: an extension of griffe that ``mkdocs.yml`` names.

Griffe knows the section ``Examples``; ours is called ``Example``. Sphinx roles become code.
"""

from __future__ import annotations

import re

import griffe

__all__ = ["DocstringSections"]

ROLE = re.compile(r":(?:func|meth|class|mod):`(?:[^`<]*<)?([^`>]+)>?`")


class DocstringSections(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)


def readable(text: str) -> str:
    r"""A docstring as griffe's Google parser and Markdown read it.

    Example:
        >>> readable("As :func:`evaluate`.\n\nExample:\n    >>> 1\n    1")
        'As `evaluate`.\n\nExamples:\n    >>> 1\n    1'
    """
    return ROLE.sub(r"`\1`", re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE))
