"""Figures printed in the papers, as typed tables with their citations."""

from cxc_eccv.comparison.published.cxc import cxc_table
from cxc_eccv.comparison.published.eccv_caption import HEADLINES, eccv_caption_table
from cxc_eccv.comparison.published.table import PublishedScore, PublishedTable

__all__ = ["HEADLINES", "PublishedScore", "PublishedTable", "cxc_table", "eccv_caption_table", "published_tables"]


def published_tables() -> tuple[PublishedTable, ...]:
    """Every packaged table.

    Example:
        >>> [(table.name, len(table.models)) for table in published_tables()]
        [('eccv_caption', 25), ('cxc', 11)]
    """
    return eccv_caption_table(), cxc_table()
