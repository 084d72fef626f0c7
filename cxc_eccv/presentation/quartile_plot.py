"""A quartile plot: the median and the middle half of a number in ranges of another, in a panel for each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cxc_eccv.presentation.axes import Axis, make_axis_of_any_scale
from cxc_eccv.presentation.drawing import Dot, Drawing, Label, Line, measure_text

WIDE = 800
NARROW = 340
PANEL_HEIGHT = 276
GAP = 22
"""Between panels below one another."""
TOP = 48
"""The height of a panel's name and note."""
BOTTOM = 44
"""The height of the numbers and the name of the axis across."""
RIGHT = 10
MEDIAN = 8
"""Half the width of a median."""
STYLES = 8


@dataclass(frozen=True, slots=True)
class Quartiles:
    """The quartiles of ``n`` values, in the range from ``start`` to ``end``."""

    start: float
    end: float
    n: int
    first: float
    median: float
    third: float

    @property
    def title(self) -> str:
        """The range and its numbers in words."""
        middle = f"half from {show_quartile(self.first)} to {show_quartile(self.third)}"
        return f"{self.start:g} to {self.end:g}: median {show_quartile(self.median)}, {middle}, n = {self.n:,}"


def show_quartile(value: float) -> str:
    """Three digits, or all that stand before the point.

    Example:
        >>> [show_quartile(value) for value in (0.5, 0.01234, 27.125, 31250.4)]
        ['0.500', '0.0123', '27.1', '31,250']
    """
    return f"{value:#.3g}" if abs(value) < 99.95 else f"{value:,.0f}"


@dataclass(frozen=True, slots=True)
class Panel:
    """A group with its name, a note below it, and its ranges."""

    name: str
    note: str
    ranges: Sequence[Quartiles]


@dataclass(frozen=True, slots=True)
class QuartilePlot:
    """Panels with the same ranges across, each with a scale of its own up."""

    title: str
    x_name: str
    y_name: str
    panels: Sequence[Panel]

    @property
    def description(self) -> str:
        """All numbers in words."""
        texts = []
        for panel in self.panels:
            heading = ", ".join(filter(None, (panel.name, panel.note)))
            ranges = "; ".join(each.title for each in panel.ranges)
            texts.append(f"{heading}: {self.x_name} {ranges}")
        return f"{'. '.join(texts)}."

    def draw(self, width: int = WIDE) -> Drawing:
        """The chart in a width: its panels side by side, in a narrow one below one another."""
        n_columns = len(self.panels) if width >= WIDE else 1
        ends = [end for panel in self.panels for each in panel.ranges for end in (each.start, each.end)]
        lines: list[Line] = []
        dots: list[Dot] = []
        labels: list[Label] = []
        for number, panel in enumerate(self.panels):
            left = width / n_columns * (number % n_columns)
            top = (PANEL_HEIGHT + GAP) * (number // n_columns)
            edge = left + width / n_columns - RIGHT
            up = _make_scale(panel, top)
            start = left + 14 + max(measure_text(f"{tick:g}") for tick in up.ticks())
            across = make_axis_of_any_scale(ends, start, edge, most_ticks=7)
            place = _PlacedPanel(self, panel, left, top, across, up)
            style = f"model-{number % STYLES}"
            lines += [*place.draw_grid(), *place.draw_ranges(style)]
            dots += place.draw_medians(style)
            labels += place.draw_labels()
        height = (PANEL_HEIGHT + GAP) * (len(self.panels) // n_columns) - GAP
        return Drawing(width, height, self.title, self.description, lines, dots, labels)


@dataclass(frozen=True, slots=True)
class _PlacedPanel:
    """A panel with its axes."""

    plot: QuartilePlot
    panel: Panel
    left: float
    top: float
    across: Axis
    up: Axis

    def draw_grid(self) -> Iterator[Line]:
        """The lines of the scale."""
        for tick in self.up.ticks():
            y = self.up.place(tick)
            yield Line(self.across.start, y, self.across.end, y, "grid-line")
        yield Line(self.across.start, self.up.start, self.across.end, self.up.start, "axis")

    def draw_ranges(self, style: str) -> Iterator[Line]:
        """The middle half of each range, and its median across it."""
        for each in self.panel.ranges:
            x = self._find_middle(each)
            y = self.up.place(each.median)
            yield Line(x, self.up.place(each.first), x, self.up.place(each.third), f"middle-half {style}")
            yield Line(x - MEDIAN, y, x + MEDIAN, y, "median")

    def draw_medians(self, style: str) -> Iterator[Dot]:
        """A mark on each median, which tells its numbers."""
        for each in self.panel.ranges:
            title = f"{self.plot.x_name} {each.title}"
            yield Dot(self._find_middle(each), self.up.place(each.median), title, style, radius=3)

    def draw_labels(self) -> Iterator[Label]:
        """The names of the panel and its axes, and the numbers beside them."""
        yield Label(self.left + 4, self.top + 14, self.panel.name, "name")
        yield Label(self.left + 4, self.top + 32, self.panel.note)
        for tick in self.up.ticks():
            yield Label(self.across.start - 7, self.up.place(tick) + 4, f"{tick:g}", anchor="end")
        for tick in self.across.ticks():
            yield Label(self.across.place(tick), self.up.start + 17, f"{tick:g}", anchor="middle")
        yield Label(self.across.end, self.up.start + 36, f"{self.plot.x_name} \N{RIGHTWARDS ARROW}", anchor="end")
        yield Label(self.left + 4, self.up.start + 36, f"\N{UPWARDS ARROW} {self.plot.y_name}")

    def _find_middle(self, each: Quartiles) -> float:
        return self.across.place((each.start + each.end) / 2)


def _make_scale(panel: Panel, top: float) -> Axis:
    """The scale of a panel's values, which holds their quartiles."""
    ends = [end for each in panel.ranges for end in (each.first, each.median, each.third)]
    return make_axis_of_any_scale(ends, top + PANEL_HEIGHT - BOTTOM, top + TOP, most_ticks=8)
