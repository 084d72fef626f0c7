"""TF-IDF bag of words: text-text retrieval by shared words."""

from __future__ import annotations

from cxc_eccv.baselines.bow import evaluate_bow
from cxc_eccv.baselines.untrained.declared import Baseline, Inputs
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Report

__all__ = ["BASELINE"]


def run(library: Library, split: str, _inputs: Inputs) -> tuple[Report, None]:
    """Text-text retrieval on Crisscrossed Captions."""
    return evaluate_bow(library, split), None


BASELINE = Baseline(
    name="bow",
    summary="TF-IDF bag of words with document frequencies of the validation captions; text-text retrieval on CxC",
    run=run,
)
