"""Several reports together: paired tests between models, agreement between metrics, a place among published models."""

from cxc_eccv.comparison.paired import (
    Comparison,
    Difference,
    QueryValues,
    ScoredReport,
    Settings,
    compare,
    load_reports,
    read_reports,
)
from cxc_eccv.comparison.published import (
    Agreement,
    Placement,
    PublishedScore,
    PublishedTable,
    metric_agreement,
    place,
    published_agreement,
    published_tables,
)

__all__ = [
    "Agreement",
    "Comparison",
    "Difference",
    "Placement",
    "PublishedScore",
    "PublishedTable",
    "QueryValues",
    "ScoredReport",
    "Settings",
    "compare",
    "load_reports",
    "metric_agreement",
    "place",
    "published_agreement",
    "published_tables",
    "read_reports",
]
