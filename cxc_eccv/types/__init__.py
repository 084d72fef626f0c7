"""Frozen dataclasses shared by every layer: judgments, embeddings, rankings, ranks, results."""

from cxc_eccv.types.ids import (
    LABEL_VALUES,
    PROBABILITY_VALUES,
    Embeddings,
    FloatArray,
    IntArray,
    check_values,
    check_whole,
    find_positions,
)
from cxc_eccv.types.judgments import (
    CROSS_MODAL,
    DIRECTIONS,
    SIDES,
    JudgedRanks,
    Judgments,
    PositiveRanks,
    RatedPairs,
    TopK,
    find_sides,
    look_up_gains,
    other_side,
)
from cxc_eccv.types.rating_bin import RatingBin
from cxc_eccv.types.result import Bounds, Result

__all__ = [
    "CROSS_MODAL",
    "DIRECTIONS",
    "LABEL_VALUES",
    "PROBABILITY_VALUES",
    "SIDES",
    "Bounds",
    "Embeddings",
    "FloatArray",
    "IntArray",
    "JudgedRanks",
    "Judgments",
    "PositiveRanks",
    "RatedPairs",
    "RatingBin",
    "Result",
    "TopK",
    "check_values",
    "check_whole",
    "find_positions",
    "find_sides",
    "look_up_gains",
    "other_side",
]
