"""Compare reports: tests between models, intervals of ranks, ranks among published models, agreement of metrics."""

from cxc_eccv.comparison.differences import Comparison, ComparisonSettings, Difference
from cxc_eccv.comparison.paired import compare
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
from cxc_eccv.comparison.ranks import ModelRank
from cxc_eccv.comparison.scored_report import QueryValues, ScoredReport, load_reports, read_reports

__all__ = [
    "Agreement",
    "Comparison",
    "ComparisonSettings",
    "Difference",
    "ModelRank",
    "Placement",
    "PublishedScore",
    "PublishedTable",
    "QueryValues",
    "ScoredReport",
    "compare",
    "load_reports",
    "metric_agreement",
    "place",
    "published_agreement",
    "published_tables",
    "read_reports",
]
