"""Figures printed in the papers, as typed tables with their citations, and a place among them."""

from cxc_eccv.comparison.published.cxc import cxc_table
from cxc_eccv.comparison.published.eccv_caption import HEADLINES, eccv_caption_table
from cxc_eccv.comparison.published.placement import Agreement, Placement, metric_agreement, place, published_agreement
from cxc_eccv.comparison.published.rank_chart import draw_rank_chart, require_matplotlib
from cxc_eccv.comparison.published.table import PublishedScore, PublishedTable

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


def published_tables() -> tuple[PublishedTable, ...]:
    """Every packaged table.

    Example:
        >>> [(table.name, len(table.models)) for table in published_tables()]
        [('eccv_caption', 25), ('cxc', 11)]
    """
    return eccv_caption_table(), cxc_table()
