"""A dot plot: the values of several models under several metrics on one axis, with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cxc_eccv.presentation.axes import Axis, make_axis
from cxc_eccv.presentation.drawing import Dot, Drawing, Label, Line, measure_text

WIDE = 800
NARROW = 340
LANE = 13
"""The height of a model in a row."""
ROW_GAP = 12
HEADING = 18
"""The height of a row's name where it stands above."""
TOP = 24
RIGHT = 18
SIDE = 12
LEGEND_LINE = 20
STYLES = 8
"""Further models have the colours of the first ones; the order in a row tells them apart."""


@dataclass(frozen=True, slots=True)
class PlottedValue:
    """A value in percent with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DotPlot:
    """Rows of metrics; in each the models stand below one another, in their order."""

    title: str
    models: Sequence[str]
    rows: Mapping[str, Mapping[str, PlottedValue]]

    @property
    def description(self) -> str:
        """All values in words."""
        rows = []
        for name, values in self.rows.items():
            shown = (f"{model} {one.value:.1f} [{one.low:.1f}, {one.high:.1f}]" for model, one in values.items())
            rows.append(f"{name}: {', '.join(shown)}")
        return f"{'; '.join(rows)}."

    def draw(self, width: int = WIDE) -> Drawing:
        """The chart in a width; in a narrow one the names of metrics stand above their rows."""
        is_wide = width >= WIDE
        left = SIDE + max(map(measure_text, self.rows)) + 8 if is_wide else SIDE + 4
        heading = 0 if is_wide else HEADING
        row_height = heading + LANE * len(self.models) + ROW_GAP
        bottom = TOP + row_height * len(self.rows)
        ends = [end for values in self.rows.values() for one in values.values() for end in (one.low, one.high)]
        axis = make_axis(ends, left, width - RIGHT, most_ticks=1 + width // 80)
        legend = list(self._draw_legend(width, bottom + 46))
        return Drawing(
            width,
            round(max(label.y for _, label in legend) + 12),
            self.title,
            self.description,
            lines=[*_draw_grid(axis, bottom), *self._draw_intervals(axis, row_height, heading)],
            dots=[*self._draw_values(axis, row_height, heading), *(dot for dot, _ in legend)],
            labels=[
                *_name_ticks(axis, bottom),
                *self._name_rows(row_height, heading),
                *(label for _, label in legend),
            ],
        )

    def _list_places(self, row_height: int, heading: int) -> Iterator[tuple[float, int, str, PlottedValue]]:
        """The height of each value, the place of its model in the legend, its name in words, and the value."""
        for number, (name, values) in enumerate(self.rows.items()):
            top = TOP + number * row_height + heading + ROW_GAP / 2
            for index, model in enumerate(self.models):
                if model in values:
                    yield top + LANE * (index + 0.5), index, f"{model}, {name}", values[model]

    def _draw_intervals(self, axis: Axis, row_height: int, heading: int) -> Iterator[Line]:
        for number in range(1, len(self.rows)):
            edge = TOP + number * row_height
            yield Line(SIDE, edge, axis.end, edge, "grid-line")
        for y, index, _, one in self._list_places(row_height, heading):
            yield Line(axis.place(one.low), y, axis.place(one.high), y, f"bar {_name_style(index)}")

    def _draw_values(self, axis: Axis, row_height: int, heading: int) -> Iterator[Dot]:
        for y, index, name, one in self._list_places(row_height, heading):
            title = f"{name}: {one.value:.1f} [{one.low:.1f}, {one.high:.1f}]"
            yield Dot(axis.place(one.value), y, title, _name_style(index))

    def _name_rows(self, row_height: int, heading: int) -> Iterator[Label]:
        for number, name in enumerate(self.rows):
            top = TOP + number * row_height
            yield Label(SIDE, top + (heading or row_height / 2 + 4), name, "name")

    def _draw_legend(self, width: int, top: float) -> Iterator[tuple[Dot, Label]]:
        """The models in their colours, in as many lines as they need."""
        x = float(SIDE)
        y = top
        for index, model in enumerate(self.models):
            needed = 30 + measure_text(model)
            if x > SIDE and x + needed > width:
                x = float(SIDE)
                y += LEGEND_LINE
            yield Dot(x + 5, y - 4, model, _name_style(index), radius=5), Label(x + 15, y, model, "name")
            x += needed


def _name_style(index: int) -> str:
    return f"model-{index % STYLES}"


def _draw_grid(axis: Axis, bottom: float) -> Iterator[Line]:
    for tick in axis.ticks():
        x = axis.place(tick)
        yield Line(x, TOP, x, bottom, "grid-line")
    yield Line(axis.start, bottom, axis.end, bottom, "axis")


def _name_ticks(axis: Axis, bottom: float) -> Iterator[Label]:
    """The ticks above and below, as rows may fill more than a screen."""
    for tick in axis.ticks():
        yield Label(axis.place(tick), TOP - 8, f"{tick:g}", anchor="middle")
        yield Label(axis.place(tick), bottom + 16, f"{tick:g}", anchor="middle")
