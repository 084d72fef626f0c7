"""The model's similarities of rated pairs by rating, as a chart and as a table."""

from __future__ import annotations

from cxc_eccv.presentation.drawing import DrawnChart
from cxc_eccv.presentation.quartile_plot import NARROW, Panel, QuartilePlot, Quartiles, show_quartile
from cxc_eccv.report.report_data import ReportData
from cxc_eccv.tables import Table
from cxc_eccv.terminal import upper_first
from cxc_eccv.types import RatingBin
from cxc_eccv.types.result import SPREAD
from cxc_eccv.wording import direction_name, metric_name, show_value, unit_of

TITLE = "Similarity by rating"
BOTH_ORDERS = "STS and SIS count each pair in both orders, as their correlations do."
HOW_TO_READ = (
    "Bars hold the middle half of the similarities in each range of ratings, the lines across them are medians, and "
    "each kind of pairs has its own scale. Where a model agrees with people, medians rise from left to right and bars "
    f"overlap little. {BOTH_ORDERS}"
)


def draw_ratings(report: ReportData) -> DrawnChart | None:
    """The chart for a wide and a narrow screen, if the report has rated pairs."""
    panels = [
        Panel(
            upper_first(direction_name(part.rpartition("/")[2])),
            _find_correlation(report, part),
            [_read_quartiles(each) for each in bins],
        )
        for part, bins in report.similarity_by_rating.items()
        if bins
    ]
    if not panels:
        return None
    plot = QuartilePlot(TITLE, "rating", "similarity", panels)
    return DrawnChart(plot.draw(), plot.draw(NARROW), HOW_TO_READ)


def _read_quartiles(each: RatingBin) -> Quartiles:
    quartiles = each.first_quartile, each.median, each.third_quartile
    return Quartiles(each.rating_from, each.rating_to, each.n_pairs, *quartiles)


def rating_table(report: ReportData) -> Table:
    """The same numbers."""
    rows = [
        [
            direction_name(part.rpartition("/")[2]),
            f"{each.rating_from:g} to {each.rating_to:g}",
            f"{each.n_pairs:,}",
            *(show_quartile(value) for value in (each.first_quartile, each.median, each.third_quartile)),
        ]
        for part, bins in report.similarity_by_rating.items()
        for each in bins
    ]
    header = [("Pairs",), ("rating",), ("number",), ("first quartile",), ("median",), ("third quartile",)]
    return Table(header, rows, TITLE, notes=[BOTH_ORDERS])


def _find_correlation(report: ReportData, part: str) -> str:
    """The first correlation of a part with its name; empty if there is none."""
    for row in report.results:
        of_part = f"{row.task}/{row.direction}" == part
        if of_part and unit_of(row.metric) == "correlation" and not row.metric.endswith(SPREAD):
            return f"{metric_name(row.metric)} {show_value(row.metric, row.value)}"
    return ""
