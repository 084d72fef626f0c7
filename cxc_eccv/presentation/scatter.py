"""A scatter chart: named points in the plane of two metrics, some with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cxc_eccv.presentation.axes import Axis, make_axis
from cxc_eccv.presentation.drawing import FONT_SIZE, Anchor, Dot, Drawing, Label, Line, Shape, measure_text

WIDE = (800, 500)
NARROW = (340, 400)
LEFT = 46
RIGHT = 16
TOP = 26
BOTTOM = 66
GAP = 8
"""Between a point and its name."""
CAP = 4
"""Half the width of the ends of an interval."""

Interval = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, top, right and bottom."""


@dataclass(frozen=True, slots=True)
class Point:
    """A model at its values in percent; ``series`` is the place of its source in the legend, None for a user's."""

    name: str
    x: float
    y: float
    series: int | None
    x_interval: Interval | None = None
    y_interval: Interval | None = None

    @property
    def title(self) -> str:
        """The name with both values."""
        return f"{self.name}: {self.x:.1f}, {self.y:.1f}"


SERIES_STYLES = ("published", "second")
SERIES_SHAPES: tuple[Shape, ...] = ("circle", "diamond")


@dataclass(frozen=True, slots=True)
class Scatter:
    """Points with the names of both axes and of the sources of published ones."""

    title: str
    description: str
    x_name: str
    y_name: str
    series: Sequence[str]
    points: Sequence[Point]

    def draw(self, size: tuple[int, int] = WIDE) -> Drawing:
        """The chart in a size; the user's points have their names, the others as far as there is room."""
        width, height = size
        right = width - RIGHT
        bottom = height - BOTTOM
        ends_x = [value for point in self.points for value in (point.x, *(point.x_interval or ()))]
        ends_y = [value for point in self.points for value in (point.y, *(point.y_interval or ()))]
        across = make_axis(ends_x, LEFT, right, most_ticks=1 + width // 80)
        up = make_axis(ends_y, bottom, TOP, most_ticks=9)
        ordered = sorted(self.points, key=lambda point: point.series is None)
        dots = [_draw_point(point, across, up) for point in ordered]
        names = _place_names(ordered, across, up, Frame(LEFT, TOP, right, bottom))
        legend_dots, legend_labels = self._draw_legend(width, height)
        return Drawing(
            width,
            height,
            self.title,
            self.description,
            lines=[*_draw_axes(across, up), *_draw_intervals(self.points, across, up)],
            dots=[*legend_dots, *dots],
            labels=[*self._name_axes(across, up, height), *legend_labels, *names],
        )

    def _name_axes(self, across: Axis, up: Axis, height: int) -> Iterator[Label]:
        bottom = height - BOTTOM
        for tick in across.ticks():
            yield Label(across.place(tick), bottom + 18, f"{tick:g}", anchor="middle")
        for tick in up.ticks():
            yield Label(LEFT - 7, up.place(tick) + 4, f"{tick:g}", anchor="end")
        yield Label(across.end, bottom + 37, f"{self.x_name} \N{RIGHTWARDS ARROW}", anchor="end")
        yield Label(4, 14, f"\N{UPWARDS ARROW} {self.y_name}")

    def _draw_legend(self, width: int, height: int) -> tuple[list[Dot], list[Label]]:
        """The marks of the sources, in a line below the chart."""
        x = float(LEFT)
        y = height - 8
        dots = []
        labels = []
        for index, name in enumerate(self.series):
            text = name if width > NARROW[0] else name.partition(" (")[0]
            dots.append(Dot(x, y - 4, name, SERIES_STYLES[index], SERIES_SHAPES[index], 4 + index))
            labels.append(Label(x + 10, y, text))
            x += 28 + measure_text(text)
        if any(point.series is None for point in self.points):
            dots.append(Dot(x, y - 4, "yours", "own-dot", radius=6))
            labels.append(Label(x + 11, y, "yours", "own-name"))
        return dots, labels


@dataclass(frozen=True, slots=True)
class Frame:
    """The area of the points."""

    left: float
    top: float
    right: float
    bottom: float

    def holds(self, box: Box) -> bool:
        """Whether a box lies inside."""
        left, top, right, bottom = box
        return self.left <= left and right <= self.right and self.top <= top and bottom <= self.bottom


def _draw_axes(across: Axis, up: Axis) -> Iterator[Line]:
    for tick in across.ticks():
        x = across.place(tick)
        yield Line(x, up.end, x, up.start, "grid-line")
    for tick in up.ticks():
        y = up.place(tick)
        yield Line(across.start, y, across.end, y, "grid-line")
    yield Line(across.start, up.start, across.end, up.start, "axis")
    yield Line(across.start, up.start, across.start, up.end, "axis")


def _draw_intervals(points: Sequence[Point], across: Axis, up: Axis) -> Iterator[Line]:
    for point in points:
        x = across.place(point.x)
        y = up.place(point.y)
        if point.x_interval is not None:
            low, high = (across.place(end) for end in point.x_interval)
            yield Line(low, y, high, y, "own-interval")
            yield from (Line(end, y - CAP, end, y + CAP, "own-interval") for end in (low, high))
        if point.y_interval is not None:
            low, high = (up.place(end) for end in point.y_interval)
            yield Line(x, low, x, high, "own-interval")
            yield from (Line(x - CAP, end, x + CAP, end, "own-interval") for end in (low, high))


def _draw_point(point: Point, across: Axis, up: Axis) -> Dot:
    x = across.place(point.x)
    y = up.place(point.y)
    if point.series is None:
        return Dot(x, y, point.title, "own-dot", radius=6)
    return Dot(x, y, point.title, SERIES_STYLES[point.series], SERIES_SHAPES[point.series], 4 + point.series)


def _place_names(points: Sequence[Point], across: Axis, up: Axis, frame: Frame) -> Iterator[Label]:
    """The name of each point where no other name or point is in its way; those of a user's points always."""
    places = {point: (across.place(point.x), up.place(point.y)) for point in points}
    taken = [_surround(x, y) for x, y in places.values()]
    taken += [_enclose(line) for line in _draw_intervals(points, across, up)]
    for point in sorted(points, key=lambda point: (point.series is not None, -point.y)):
        x, y = places[point]
        sides = list(_list_sides(point, x, y))
        fitting = [(label, box) for label, box in sides if frame.holds(box) and not _overlaps(box, taken)]
        if not fitting and point.series is None:
            fitting = [(label, box) for label, box in sides if frame.holds(box)] or sides
        if fitting:
            label, box = fitting[0]
            taken.append(box)
            yield label


def _surround(x: float, y: float) -> Box:
    return (x - 5, y - 5, x + 5, y + 5)


def _enclose(line: Line) -> Box:
    return (min(line.x1, line.x2), min(line.y1, line.y2), max(line.x1, line.x2), max(line.y1, line.y2))


def _overlaps(box: Box, others: Sequence[Box]) -> bool:
    left, top, right, bottom = box
    return any(left < other[2] and other[0] < right and top < other[3] and other[1] < bottom for other in others)


def _list_sides(point: Point, x: float, y: float) -> Iterator[tuple[Label, Box]]:
    """The name beside, above and below its point and in its corners, each with the box that it fills."""
    style = "own-name" if point.series is None else "name"
    width = measure_text(point.name)
    sides: list[tuple[float, float, Anchor, float]] = [
        (x + GAP, y + 4, "start", x + GAP),
        (x - GAP, y + 4, "end", x - GAP - width),
        (x, y - GAP, "middle", x - width / 2),
        (x, y + GAP + 9, "middle", x - width / 2),
        (x + GAP, y - GAP, "start", x + GAP),
        (x - GAP, y - GAP, "end", x - GAP - width),
        (x + GAP, y + GAP + 9, "start", x + GAP),
        (x - GAP, y + GAP + 9, "end", x - GAP - width),
    ]
    for text_x, text_y, anchor, left in sides:
        box = (left, text_y - FONT_SIZE + 3, left + width, text_y + 2)
        yield Label(round(text_x, 1), round(text_y, 1), point.name, style, anchor), box
