"""Figures printed in the papers, as typed tables with their citations, and a place among them."""

from cxc_eccv.comparison.published.placement import Agreement, Placement, metric_agreement, place, published_agreement
from cxc_eccv.comparison.published.rank_chart import draw_rank_chart, require_matplotlib
from cxc_eccv.comparison.published.tables import (
    HEADLINES,
    PublishedScore,
    PublishedTable,
    cxc_table,
    eccv_caption_table,
    published_tables,
)

__all__ = [
    "HEADLINES",
    "Agreement",
    "Placement",
    "PublishedScore",
    "PublishedTable",
    "cxc_table",
    "draw_rank_chart",
    "eccv_caption_table",
    "metric_agreement",
    "place",
    "published_agreement",
    "published_tables",
    "require_matplotlib",
]
