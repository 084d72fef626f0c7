"""Frozen dataclasses shared by every layer: judgments, embeddings, rankings, ranks, reports."""

from cxc_eccv.types.embedded import Embeddings
from cxc_eccv.types.ids import FloatArray, IntArray, check_whole, positions_of
from cxc_eccv.types.judged import DIRECTIONS, Judgments, RatedPairs
from cxc_eccv.types.ranked import PositiveRanks, TopK
from cxc_eccv.types.reported import Report, Result

__all__ = [
    "DIRECTIONS",
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
    "positions_of",
]
