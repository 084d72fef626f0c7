"""Compare reports: tests between models, intervals of ranks, published models, agreement of metrics."""

from cxc_eccv.comparison.compare_reports import compare
from cxc_eccv.comparison.differences import Comparison, ComparisonSettings, Difference
from cxc_eccv.comparison.label_agreement import ModelAgreement, OrderAgreement, measure_agreement
from cxc_eccv.comparison.model_ranks import ModelRank
from cxc_eccv.comparison.pairing import QueryValues, ScoredReport, load_reports, read_reports
from cxc_eccv.comparison.published import (
    Agreement,
    PublishedScore,
    PublishedTable,
    metric_agreement,
    published_agreement,
    published_tables,
)
from cxc_eccv.comparison.published_join import join

__all__ = [
    "Agreement",
    "Comparison",
    "ComparisonSettings",
    "Difference",
    "ModelAgreement",
    "ModelRank",
    "OrderAgreement",
    "PublishedScore",
    "PublishedTable",
    "QueryValues",
    "ScoredReport",
    "compare",
    "join",
    "load_reports",
    "measure_agreement",
    "metric_agreement",
    "published_agreement",
    "published_tables",
    "read_reports",
]
