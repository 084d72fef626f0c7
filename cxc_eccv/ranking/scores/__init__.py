"""Where blocks of scores come from: each source fills rows ``start`` to ``stop`` of a matrix."""

from cxc_eccv.ranking.scores.device import DeviceProduct, full_precision, torch_on
from cxc_eccv.ranking.scores.product import (
    ALIGNMENT,
    SIMILARITIES,
    GivenScores,
    Layout,
    Product,
    ScoreRows,
    first_twins,
    places_of,
    prepare,
    prepare_side,
    refuse_embedding_options,
    refuse_extremes,
    refuse_zero_vectors,
    row_hashes,
    similarity_of,
)

__all__ = [
    "ALIGNMENT",
    "SIMILARITIES",
    "DeviceProduct",
    "GivenScores",
    "Layout",
    "Product",
    "ScoreRows",
    "first_twins",
    "full_precision",
    "places_of",
    "prepare",
    "prepare_side",
    "refuse_embedding_options",
    "refuse_extremes",
    "refuse_zero_vectors",
    "row_hashes",
    "similarity_of",
    "torch_on",
]
