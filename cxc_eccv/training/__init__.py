"""Scores in a training loop: a callback for a Trainer, and a metric of torchmetrics; each imports its own library."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__all__ = ["RetrievalCallback", "RetrievalScores"]

HOMES = {
    "RetrievalCallback": "cxc_eccv.training.retrieval_callback",
    "RetrievalScores": "cxc_eccv.training.retrieval_scores",
}

if TYPE_CHECKING:
    from cxc_eccv.training.retrieval_callback import RetrievalCallback
    from cxc_eccv.training.retrieval_scores import RetrievalScores


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(HOMES[name]), name)
    return value
