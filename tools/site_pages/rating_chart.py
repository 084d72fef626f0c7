"""The ratings of CxC as a chart: how many pairs of each kind are rated from 0 to 1, from 1 to 2 and so on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cxc_eccv.presentation.axes import Axis, make_axis
from cxc_eccv.presentation.drawing import Dot, Drawing, Label, Line

__all__ = ["draw_ratings"]

PANELS = {"sts": "STS, caption pairs", "sis": "SIS, image pairs", "sits": "SITS, image-caption pairs"}
OF_ONE_IMAGE = ("c2c_cocaption", "c2i_original")
LEGEND = ("captions of one image, original links", "chosen by similarity")
SPLIT = "validation"

WIDTH = 800
HEIGHT = 330
TOP = 46
BOTTOM = 262
LEFT = 52
PANEL = 240
"""The width of a panel with the gap beside it."""
BIN = 44
COLUMN = 18
"""The width of a column, as in charts.css."""


def draw_ratings(statistics: Mapping[str, Any]) -> str:
    """The chart as SVG, from the statistics of the dataset cards."""
    groups = {kind: statistics[kind][SPLIT]["groups"] for kind in PANELS}
    counts = [
        count
        for of_kind in groups.values()
        for group in of_kind.values()
        for count in group["columns"]["rating"]["histogram"].values()
    ]
    up = make_axis([0, *(count / 1000 for count in counts)], BOTTOM, TOP, most_ticks=7)
    described = []
    for kind, of_kind in groups.items():
        for name, group in of_kind.items():
            histogram = group["columns"]["rating"]["histogram"]
            shares = ", ".join(f"{count:,} from {rating}" for rating, count in histogram.items())
            described.append(f"{PANELS[kind]}, {LEGEND[_style(name)]}: {shares}")
    drawing = Drawing(
        WIDTH,
        HEIGHT,
        f"Ratings of the pairs of CxC, {SPLIT} split",
        f"{'; '.join(described)}.",
        lines=[*_draw_grid(up), *_draw_columns(groups, up)],
        dots=[Dot(LEFT + 6 + 330 * index, HEIGHT - 18, name, f"model-{index}") for index, name in enumerate(LEGEND)],
        labels=[
            *_name_axes(up),
            *(Label(LEFT + 18 + 330 * index, HEIGHT - 14, name) for index, name in enumerate(LEGEND)),
        ],
    )
    return drawing.to_svg()


def _style(group: str) -> int:
    return 0 if group in OF_ONE_IMAGE else 1


def _draw_columns(groups: Mapping[str, Mapping[str, Any]], up: Axis) -> Iterator[Line]:
    for panel, of_kind in enumerate(groups.values()):
        for place, (name, group) in enumerate(sorted(of_kind.items(), key=lambda item: _style(item[0]))):
            offset = BIN / 2 + COLUMN * (place - (len(of_kind) - 1) / 2)
            for number, count in enumerate(group["columns"]["rating"]["histogram"].values()):
                x = LEFT + PANEL * panel + BIN * number + offset
                yield Line(x, up.start, x, up.place(count / 1000), f"column model-{_style(name)}")


def _draw_grid(up: Axis) -> Iterator[Line]:
    for panel in range(len(PANELS)):
        left = LEFT + PANEL * panel
        for tick in up.ticks():
            yield Line(left, up.place(tick), left + 5 * BIN, up.place(tick), "axis" if tick == 0 else "grid-line")


def _name_axes(up: Axis) -> Iterator[Label]:
    yield Label(4, 14, "thousands of pairs")
    for tick in up.ticks():
        yield Label(LEFT - 7, up.place(tick) + 4, f"{tick:g}", anchor="end")
    for panel, title in enumerate(PANELS.values()):
        left = LEFT + PANEL * panel
        yield Label(left, TOP - 12, title, "name")
        for rating in range(6):
            yield Label(left + BIN * rating, BOTTOM + 17, str(rating), anchor="middle")
    yield Label(LEFT, BOTTOM + 36, "rating")
