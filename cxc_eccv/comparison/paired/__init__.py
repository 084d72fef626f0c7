"""Two or more reports of ours, query by query."""

from cxc_eccv.comparison.paired.paired import Comparison, Difference, Settings, compare
from cxc_eccv.comparison.paired.scored_report import QueryValues, ScoredReport, load_reports, read_reports

__all__ = [
    "Comparison",
    "Difference",
    "QueryValues",
    "ScoredReport",
    "Settings",
    "compare",
    "load_reports",
    "read_reports",
]
