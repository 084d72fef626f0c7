"""Tables of published models with their citations, and ranks of further models among them."""

from cxc_eccv.comparison.published.placement import (
    Agreement,
    ModelOrder,
    Placement,
    Standing,
    metric_agreement,
    order_models,
    place,
    published_agreement,
)
from cxc_eccv.comparison.published.rank_chart import draw_rank_chart, import_matplotlib
from cxc_eccv.comparison.published.tables import (
    HEADLINES,
    PublishedScore,
    PublishedTable,
    cxc_table,
    eccv_caption_table,
    open_clip_table,
    published_tables,
)

__all__ = [
    "HEADLINES",
    "Agreement",
    "ModelOrder",
    "Placement",
    "PublishedScore",
    "PublishedTable",
    "Standing",
    "cxc_table",
    "draw_rank_chart",
    "eccv_caption_table",
    "import_matplotlib",
    "metric_agreement",
    "open_clip_table",
    "order_models",
    "place",
    "published_agreement",
    "published_tables",
]
