"""Several reports together: paired tests between models, agreement between metrics, a place among published models."""

from cxc_eccv.comparison.paired.paired import Comparison, Difference, Settings, compare
from cxc_eccv.comparison.paired.scored_report import QueryValues, ScoredReport, load_reports, read_reports
from cxc_eccv.comparison.published import PublishedScore, PublishedTable, published_tables
from cxc_eccv.comparison.published.placement import Agreement, Placement, metric_agreement, place, published_agreement

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
