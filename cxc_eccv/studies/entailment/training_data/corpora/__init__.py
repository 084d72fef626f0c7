"""The corpora, one ``CORPUS`` per file, found by their place."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache

from cxc_eccv.discovery import find_declared
from cxc_eccv.studies.entailment.training_data.corpus import Corpus

__all__ = ["corpora"]


@cache
def corpora() -> Mapping[str, Corpus]:
    """Every corpus by name, in alphabetical order."""
    return find_declared(importlib.import_module(__name__), "CORPUS", Corpus)
