"""Charts as SVG."""

from cxc_eccv.report.charts.bars import Segment, Span, segments, span
from cxc_eccv.report.charts.bins import LABELS, BestRanks, RankBins, best_ranks, rank_bins
from cxc_eccv.report.charts.lines import CurvePanel, curve_panels, line_chart, table_depths

__all__ = [
    "LABELS",
    "BestRanks",
    "CurvePanel",
    "RankBins",
    "Segment",
    "Span",
    "best_ranks",
    "curve_panels",
    "line_chart",
    "rank_bins",
    "segments",
    "span",
    "table_depths",
]
