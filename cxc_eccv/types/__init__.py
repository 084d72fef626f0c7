"""Frozen dataclasses shared by every layer: judgments, embeddings, rankings, ranks, reports."""

from cxc_eccv.types.ids import (
    LABELS,
    PROBABILITIES,
    Embeddings,
    FloatArray,
    IntArray,
    check_values,
    check_whole,
    positions_of,
)
from cxc_eccv.types.judged import (
    CROSS_MODAL,
    DIRECTIONS,
    SIDES,
    JudgedRanks,
    Judgments,
    PositiveRanks,
    RatedPairs,
    TopK,
    look_up_gains,
    other_side,
    sides_of,
)
from cxc_eccv.types.reported import Bounds, Report, Result

__all__ = [
    "CROSS_MODAL",
    "DIRECTIONS",
    "LABELS",
    "PROBABILITIES",
    "SIDES",
    "Bounds",
    "Embeddings",
    "FloatArray",
    "IntArray",
    "JudgedRanks",
    "Judgments",
    "PositiveRanks",
    "RatedPairs",
    "Report",
    "Result",
    "TopK",
    "check_values",
    "check_whole",
    "look_up_gains",
    "other_side",
    "positions_of",
    "sides_of",
]
