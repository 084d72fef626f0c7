"""Frozen dataclasses shared by every layer: judgments, embeddings, rankings, ranks, reports."""

from cxc_eccv.types.embedded import Embeddings
from cxc_eccv.types.ids import FloatArray, IntArray, check_whole, positions_of
from cxc_eccv.types.judged import (
    DIRECTIONS,
    SIDES,
    Comparisons,
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
    "DIRECTIONS",
    "SIDES",
    "Bounds",
    "Comparisons",
    "Embeddings",
    "FloatArray",
    "IntArray",
    "Judgments",
    "PositiveRanks",
    "RatedPairs",
    "Report",
    "Result",
    "TopK",
    "check_whole",
    "look_up_gains",
    "other_side",
    "positions_of",
    "sides_of",
]
