"""The positive pairs of CxC as a chart: how many pairs of each kind are rated from 3 to 4 and from 4 to 5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cxc_eccv.presentation.axes import Axis, make_axis
from cxc_eccv.presentation.drawing import Dot, Drawing, Label, Line
from site_pages.rating_chart import PANELS, SPLIT

__all__ = ["draw_positives"]

RANGES = ("3 to 4", "4 to 5")

WIDTH = 640
HEIGHT = 320
TOP = 34
BOTTOM = 250
LEFT = 52
GROUP = 190
"""The width of a kind of pairs, with the gap beside it."""
DISTANCE = 64
"""Between the columns of a kind."""


def draw_positives(statistics: Mapping[str, Any]) -> str:
    """The chart as SVG, from the statistics of the dataset cards."""
    counts = {kind: _count_positives(statistics[kind][SPLIT]["groups"]) for kind in PANELS}
    up = make_axis([0, *(count / 1000 for of_kind in counts.values() for count in of_kind)], BOTTOM, TOP, most_ticks=8)
    described = [
        f"{PANELS[kind]}: {', '.join(f'{count:,} from {name}' for count, name in zip(of_kind, RANGES, strict=True))}"
        for kind, of_kind in counts.items()
    ]
    drawing = Drawing(
        WIDTH,
        HEIGHT,
        f"Pairs of CxC that are rated 3 or higher, {SPLIT} split",
        f"{'; '.join(described)}.",
        lines=[*_draw_grid(up), *_draw_columns(counts, up)],
        dots=[Dot(LEFT + 6 + 150 * index, HEIGHT - 18, name, f"model-{index}") for index, name in enumerate(RANGES)],
        labels=[
            *_name_axis(up),
            *_name_columns(counts, up),
            *(Label(LEFT + 18 + 150 * index, HEIGHT - 14, f"rated {name}") for index, name in enumerate(RANGES)),
        ],
    )
    return drawing.to_svg()


def _count_positives(groups: Mapping[str, Mapping[str, Any]]) -> list[int]:
    """Number of pairs in each range, however they were chosen."""
    histograms = [group["columns"]["rating"]["histogram"] for group in groups.values()]
    by_rating = [sum(counts) for counts in zip(*(histogram.values() for histogram in histograms), strict=True)]
    return by_rating[3:]


def _find_place(kind: int, column: int) -> float:
    return LEFT + GROUP * kind + GROUP / 2 + DISTANCE * (column - 0.5)


def _draw_columns(counts: Mapping[str, list[int]], up: Axis) -> Iterator[Line]:
    for kind, of_kind in enumerate(counts.values()):
        for column, count in enumerate(of_kind):
            x = _find_place(kind, column)
            yield Line(x, up.start, x, up.place(count / 1000), f"column model-{column}")


def _draw_grid(up: Axis) -> Iterator[Line]:
    for tick in up.ticks():
        y = up.place(tick)
        yield Line(LEFT, y, LEFT + GROUP * len(PANELS), y, "axis" if tick == 0 else "grid-line")


def _name_axis(up: Axis) -> Iterator[Label]:
    yield Label(4, 14, "thousands of pairs")
    for tick in up.ticks():
        yield Label(LEFT - 7, up.place(tick) + 4, f"{tick:g}", anchor="end")


def _name_columns(counts: Mapping[str, list[int]], up: Axis) -> Iterator[Label]:
    for kind, (name, of_kind) in enumerate(counts.items()):
        yield Label(LEFT + GROUP * (kind + 0.5), BOTTOM + 20, PANELS[name], "name", "middle")
        for column, count in enumerate(of_kind):
            yield Label(_find_place(kind, column), up.place(count / 1000) - 6, f"{count:,}", "name", "middle")
