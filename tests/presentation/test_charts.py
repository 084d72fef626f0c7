"""Charts as SVG: marks lie where the axes say, names are text, and files stand alone."""

import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from cxc_eccv.errors import ExtraMissing, InvalidOption
from cxc_eccv.presentation import quartile_plot
from cxc_eccv.presentation.axes import make_axis, make_axis_of_any_scale
from cxc_eccv.presentation.dot_plot import DotPlot, PlottedValue
from cxc_eccv.presentation.drawing import check_chart_file
from cxc_eccv.presentation.quartile_plot import Panel, QuartilePlot, Quartiles
from cxc_eccv.presentation.scatter import NARROW, WIDE, Point, Scatter

SVG = "{http://www.w3.org/2000/svg}"
ATTACK = "<b>&\"'"
POINTS = (
    Point("published", 40.0, 35.0, 0),
    Point("second", 61.5, 42.1, 1),
    Point(ATTACK, 53.25, 39.5, None, (52, 54.5), (38.5, 41)),
)


def make_scatter(points=POINTS):
    return Scatter("A title", "A description", "R@1", "mAP@R", ["first", "second"], points)


def read_scale(root, *, across):
    """The function from a place in the drawing to a value, from the numbers beside an axis."""
    ticks = []
    for text in root.iter(f"{SVG}text"):
        is_x = text.get("text-anchor") == "middle" and text.get("class") is None
        if (text.text or "").isdigit() and is_x == across:
            place = float(text.get("x")) if across else float(text.get("y")) - 4
            ticks.append((place, float(text.text)))
    (slope, start) = np.polyfit(*zip(*ticks, strict=True), 1)
    return lambda place: slope * place + start


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_points_lie_where_the_axes_say(size):
    root = ET.fromstring(make_scatter().draw(size).to_svg())
    to_x = read_scale(root, across=True)
    to_y = read_scale(root, across=False)
    circles = {circle.find(f"{SVG}title").text: circle for circle in root.iter(f"{SVG}circle")}
    for point in (POINTS[0], POINTS[2]):
        circle = circles[f"{point.name}: {point.x:.1f}, {point.y:.1f}"]
        assert to_x(float(circle.get("cx"))) == pytest.approx(point.x, abs=0.1)
        assert to_y(float(circle.get("cy"))) == pytest.approx(point.y, abs=0.1)
    bars = [line for line in root.iter(f"{SVG}line") if line.get("class") == "own-interval"]
    across, up = bars[0], bars[3]
    assert [to_x(float(across.get(end))) for end in ("x1", "x2")] == pytest.approx([52, 54.5], abs=0.1)
    assert [to_y(float(up.get(end))) for end in ("y1", "y2")] == pytest.approx([38.5, 41], abs=0.1)


def test_file_stands_alone():
    """It has its colours, its text alternative, and names as text whatever is in them."""
    svg = make_scatter().draw().to_svg()
    root = ET.fromstring(svg)
    assert "var(" not in svg
    assert (root.find(f"{SVG}title").text, root.find(f"{SVG}desc").text) == ("A title", "A description")
    assert ATTACK in [text.text for text in root.iter(f"{SVG}text")]
    classes = {name for node in root.iter() for name in (node.get("class") or "").split()} - {"drawing"}
    style = root.find(f"{SVG}style").text
    assert [name for name in classes if f".{name} " not in style and f".{name}," not in style] == []


def test_own_names_are_shown_in_any_crowd():
    crowd = [Point(f"published model {number}", 50 + number / 10, 40, 0) for number in range(30)]
    own = [Point(f"mine {number}", 51 + number / 10, 40, None) for number in range(2)]
    shown = [label.text for label in make_scatter([*crowd, *own]).draw(NARROW).labels]
    assert {"mine 0", "mine 1"} <= set(shown)
    assert sum(text.startswith("published model") for text in shown) < 30


def test_png_shows_the_points(tmp_path):
    pytest.importorskip("resvg_py", reason="resvg_py is not installed: pip install '.[charts]'")
    drawing = make_scatter().draw()
    path = tmp_path / "chart.png"
    drawing.save(path)
    with Image.open(io.BytesIO(path.read_bytes())) as image:
        pixels = image.convert("RGB")
        assert pixels.size == (2 * drawing.width, 2 * drawing.height)
        own = next(dot for dot in drawing.dots if dot.title.startswith(ATTACK))
        assert pixels.getpixel((int(2 * own.x), int(2 * own.y))) == (0xB0, 0x47, 0x0C)
        assert pixels.getpixel((2, 2)) == (255, 255, 255)


def test_png_names_the_package_that_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr("cxc_eccv.extras.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match=r"an SVG chart needs nothing, but a PNG needs resvg_py, .*\[charts\]"):
        make_scatter().draw().save(tmp_path / "chart.png")
    assert list(tmp_path.iterdir()) == []


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InvalidOption, match=r"written as \.svg or \.png, not to chart\.pdf"):
        check_chart_file(tmp_path / "chart.pdf")


@pytest.mark.parametrize("values", [[0.0], [100.0, 100.0], [22.3, 73.1], [-0.4, 0.3], [41.2, 41.9], [3, 97]])
@pytest.mark.parametrize("most_ticks", [5, 9])
def test_axis_holds_all_values_between_round_ticks(values, most_ticks):
    axis = make_axis(values, 10, 90, most_ticks=most_ticks)
    ticks = axis.ticks()
    assert ticks[0] <= min(values)
    assert max(values) <= ticks[-1]
    assert 2 <= len(ticks) <= most_ticks
    assert (axis.place(ticks[0]), axis.place(ticks[-1])) == (10, 90)


@pytest.mark.parametrize(
    "values",
    [
        [0.0],
        [0.31, 0.31],
        [-0.3, 0.31],
        [1e-9, 4e-9],
        [2.5e11, -3e11],
        [27.12, 27.13],
        [1e11, 1e11 + 1e-3],
        [5e-324, 0],
    ],
)
@pytest.mark.parametrize("most_ticks", [5, 8])
def test_axis_of_any_scale_holds_all_values(values, most_ticks):
    """Zero is a tick where values lie on both sides, and not nearly zero."""
    axis = make_axis_of_any_scale(values, 10, 90, most_ticks=most_ticks)
    ticks = axis.ticks()
    room = 1e-9 * max(map(abs, values))
    assert ticks[0] <= min(values) + room
    assert max(values) - room <= ticks[-1]
    assert 2 <= len(ticks) <= most_ticks
    assert (axis.place(ticks[0]), axis.place(ticks[-1])) == (10, 90)
    assert (0 in ticks) == (ticks[0] <= 0 <= ticks[-1])


QUARTILES = (
    Panel("first", "Spearman 0.5", (Quartiles(0, 0.5, 1200, 0.12, 0.2, 0.31), Quartiles(4.5, 5, 3, 0.4, 0.4, 0.45))),
    Panel("second", "", (Quartiles(1, 1.5, 7, -31.0, -2.5, 18.0),)),
)


@pytest.mark.parametrize("width", [quartile_plot.WIDE, quartile_plot.NARROW])
def test_quartiles_lie_where_the_axes_say(width):
    """Each panel has its scale, read from the numbers between its top and its bottom at its left."""
    drawing = QuartilePlot("A title", "rating", "similarity", QUARTILES).draw(width)
    halves = [line for line in drawing.lines if line.style.startswith("middle-half")]
    medians = [line for line in drawing.lines if line.style == "median"]
    panels = [panel for panel in QUARTILES for _ in panel.ranges]
    ranges = [each for panel in QUARTILES for each in panel.ranges]
    names = {label.text: label for label in drawing.labels if label.style == "name"}
    assert len(halves) == len(medians) == len(drawing.dots) == len(ranges)
    for half, median, dot, each, panel in zip(halves, medians, drawing.dots, ranges, panels, strict=True):
        corner = names[panel.name]
        right = corner.x + (width / 2 if width == quartile_plot.WIDE else width)
        own = [
            label
            for label in drawing.labels
            if corner.x <= label.x < right and corner.y < label.y < corner.y + quartile_plot.PANEL_HEIGHT
        ]
        to_y = fit([(label.y - 4, float(label.text)) for label in own if label.anchor == "end" and is_number(label)])
        to_x = fit([(label.x, float(label.text)) for label in own if label.anchor == "middle"])
        drawn = [to_y(place) for place in (half.y1, median.y1, dot.y, half.y2)]
        room = 0.005 * (max(drawn) - min(drawn) + 0.1)
        assert drawn == pytest.approx([each.first, each.median, each.median, each.third], abs=room)
        assert to_x(half.x1) == pytest.approx((each.start + each.end) / 2, abs=0.01)
        assert 0 <= half.x1 - 7 < half.x1 + 7 <= width
        assert f"n = {each.n:,}" in dot.title
        assert dot.title.removeprefix("rating ") in drawing.description
    assert "first, Spearman 0.5: rating 0 to 0.5: median 0.200, half from 0.120 to 0.310" in drawing.description


def is_number(label):
    return label.text.lstrip("-").replace(".", "", 1).isdigit()


def fit(ticks):
    """The function from a place to a value."""
    slope, start = np.polyfit(*zip(*ticks, strict=True), 1)
    return lambda place: slope * place + start


def test_models_keep_the_order_of_the_legend():
    """Also where one of them has no value."""
    values = {"a": PlottedValue(50, 48, 52), "c": PlottedValue(40, 38, 43)}
    drawing = DotPlot(
        "Title", ["a", "b", "c"], {"COCO": values, "CxC": {**values, "b": PlottedValue(45, 44, 46)}}
    ).draw()
    rows = [dot for dot in drawing.dots if ", " in dot.title]
    by_height = [dot.title.partition(",")[0] for dot in sorted(rows, key=lambda dot: dot.y)]
    assert by_height == ["a", "c", "a", "b", "c"]
    lanes = {dot.title: dot.y for dot in rows}
    first, last = (
        lanes[f"{name}, COCO: {text}"] for name, text in (("a", "50.0 [48.0, 52.0]"), ("c", "40.0 [38.0, 43.0]"))
    )
    assert last - first == 26
    assert "a 50.0 [48.0, 52.0]" in drawing.description
