"""Extension of griffe for ``mkdocs.yml``: renames the section ``Example`` to ``Examples``; Sphinx roles become code."""

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
    r"""Convert a docstring to the form of griffe's Google parser and Markdown.

    Example:
        >>> readable("As :func:`evaluate`.\n\nExample:\n    >>> 1\n    1")
        'As `evaluate`.\n\nExamples:\n    >>> 1\n    1'
    """
    return ROLE.sub(r"`\1`", re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE))
