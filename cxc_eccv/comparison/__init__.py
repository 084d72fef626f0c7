"""Several reports together: paired tests between models, agreement between metrics, a place among published models."""

from cxc_eccv.comparison.agreement import Agreement, metric_agreement, published_agreement
from cxc_eccv.comparison.difference import Comparison, Difference, Settings
from cxc_eccv.comparison.paired import compare
from cxc_eccv.comparison.placement import Placement, place
from cxc_eccv.comparison.published import PublishedScore, PublishedTable, published_tables
from cxc_eccv.comparison.query_values import QueryValues
from cxc_eccv.comparison.scored_report import ScoredReport, load_reports, read_reports

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
