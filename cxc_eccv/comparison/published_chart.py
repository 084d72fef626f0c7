"""A user's models among published ones as a chart: R@1 on COCO 5K against mAP@R on ECCV Caption."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cxc_eccv.comparison.published import published_agreement
from cxc_eccv.comparison.published_join import Joined, Row
from cxc_eccv.presentation.scatter import Interval, Point, Scatter
from cxc_eccv.wording import list_names, ordinal

X_KEY = "coco_5k/recall_at_1"
Y_KEY = "eccv_caption/map_at_r"
FIRST_SOURCE = "eccv_caption"
SECOND_SOURCE = "pcme_plus_plus"
SAME_VALUES = 0.0011
"""Rows of both sources that differ by less in both metrics are one model: the second one prints a decimal less."""

TITLE = "COCO 5K R@1 and ECCV Caption mAP@R of published models"
NAMES = {X_KEY: "COCO 5K R@1", Y_KEY: "ECCV Caption mAP@R"}


def is_charted(published: Sequence[Joined]) -> bool:
    """Whether a model of the user has one of the two metrics, so that the chart says something of it."""
    first = [joined for joined in published if joined.table.name == FIRST_SOURCE]
    return any(set(NAMES) & set(row.values) for joined in first for row in joined.rows if not row.published)


def make_published_chart(published: Sequence[Joined]) -> Scatter:
    """The chart of the tables of ECCV Caption and PCME++, with the user's models that have both metrics.

    Values are means of both directions in percent. The interval of such a mean reaches from the mean of both lower ends
    to that of both upper ends: the directions share images, and this holds however closely they go together.
    """
    by_name = {joined.table.name: joined for joined in published}
    first = by_name[FIRST_SOURCE]
    points = list(_list_points(first.rows, 0))
    if SECOND_SOURCE in by_name:
        rows = [row for row in by_name[SECOND_SOURCE].rows if row.published and not _is_among(row, first.rows)]
        points += _list_points(rows, 1)
    own = [point for point in points if point.series is None]
    described = "; ".join(f"{point.name} {point.x:.1f} and {point.y:.1f}" for point in own)
    description = f"{len(points) - len(own)} published models. {describe_orders()}"
    if own:
        description += f" Yours, R@1 and mAP@R: {described}."
    series = ["ECCV Caption (Tables D.2, D.3)", "PCME++ (Tables 1, C.1)"]
    used = {point.series for point in points}
    return Scatter(
        TITLE,
        description,
        f"{NAMES[X_KEY]}, percent",
        f"{NAMES[Y_KEY]}, percent",
        [name for index, name in enumerate(series) if index in used],
        points,
    )


def describe_orders() -> str:
    """How alike the two metrics order the models of ECCV Caption."""
    agreement = published_agreement()
    tau = agreement.between(X_KEY, Y_KEY)
    return f"The two metrics order the {len(agreement.models)} models of ECCV Caption differently: tau-b {tau:.2f}."


def describe_standing(published: Sequence[Joined]) -> list[str]:
    """For each of the user's models its ranks by both metrics, or the metric that it lacks."""
    first = next(joined for joined in published if joined.table.name == FIRST_SOURCE)
    sentences = []
    for row in (row for row in first.rows if not row.published):
        missing = [name for key, name in NAMES.items() if key not in row.values]
        if missing:
            sentences.append(f"{row.model} is not in the chart: its report lacks {list_names(missing)} of a direction.")
            continue
        ranks = [f"{_find_rank(first.rows, row, key)} by {name}" for key, name in NAMES.items()]
        sentences.append(f"{row.model} is {list_names(ranks)}.")
    return sentences


def describe_intervals(published: Sequence[Joined]) -> str:
    """What the bars are; empty where no report has intervals."""
    first = next(joined for joined in published if joined.table.name == FIRST_SOURCE)
    confidences = sorted({row.confidence for row in first.rows if row.confidence is not None and row.intervals})
    if not confidences:
        return ""
    levels = list_names(f"{100 * confidence:g}%" for confidence in confidences)
    return (
        f"Bars: {levels} intervals. An end is the mean of the ends of both directions, so a bar is rather too long "
        "than too short. Published models come without intervals."
    )


def _list_points(rows: Sequence[Row], series: int) -> Iterator[Point]:
    for row in rows:
        if X_KEY in row.values and Y_KEY in row.values:
            yield Point(
                row.model,
                100 * row.values[X_KEY],
                100 * row.values[Y_KEY],
                series if row.published else None,
                _to_percent(row.intervals.get(X_KEY)),
                _to_percent(row.intervals.get(Y_KEY)),
            )


def _to_percent(interval: tuple[float, float] | None) -> Interval | None:
    return interval and (100 * interval[0], 100 * interval[1])


def _is_among(row: Row, others: Sequence[Row]) -> bool:
    """Whether a published row has the values of another under both metrics, as far as both are printed."""
    return any(
        all(abs(row.values.get(key, 0) - other.values.get(key, 0)) < SAME_VALUES for key in NAMES)
        for other in others
        if other.published
    )


def _find_rank(rows: Sequence[Row], own: Row, key: str) -> str:
    """The rank among all models, as in ``3rd of 26``; of equal values the published one stands first."""
    ranked = [row for row in rows if key in row.values]
    better = sum(row.values[key] > own.values[key] for row in ranked)
    equal = sum(row.published and row.values[key] == own.values[key] for row in ranked)
    return f"{ordinal(1 + better + equal)} of {len(ranked)}"
