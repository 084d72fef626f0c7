"""Scores in a training loop: a callback for a Trainer, and a metric of torchmetrics; each imports its own library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cxc_eccv.lazy import import_on_first_use

__all__ = ["RetrievalCallback", "RetrievalScores"]

HOMES = {
    "RetrievalCallback": "cxc_eccv.training.retrieval_callback",
    "RetrievalScores": "cxc_eccv.training.retrieval_scores",
}

if TYPE_CHECKING:
    from cxc_eccv.training.retrieval_callback import RetrievalCallback
    from cxc_eccv.training.retrieval_scores import RetrievalScores


__getattr__ = import_on_first_use(__name__, HOMES)
