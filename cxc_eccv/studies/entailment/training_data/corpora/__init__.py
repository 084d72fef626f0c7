"""The corpora: each module of this package declares one as ``CORPUS``, or several as ``CORPORA``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from cxc_eccv.discovery import modules_of
from cxc_eccv.studies.entailment.training_data.corpus import Corpus

__all__ = ["corpora"]


@cache
def corpora() -> Mapping[str, Corpus]:
    """Every corpus by name, in alphabetical order."""
    modules = modules_of(importlib.import_module(__name__)).values()
    declared = [corpus for module in modules for corpus in getattr(module, "CORPORA", None) or (module.CORPUS,)]
    return MappingProxyType({corpus.name: corpus for corpus in sorted(declared, key=lambda corpus: corpus.name)})
