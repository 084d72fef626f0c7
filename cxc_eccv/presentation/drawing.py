"""Charts as SVG: shapes at their places, drawn inside a page or as a file that stands alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cxc_eccv.errors import InvalidOption
from cxc_eccv.extras import require
from cxc_eccv.presentation.page import ROOM, make_environment
from cxc_eccv.writing import replaced_file

if TYPE_CHECKING:
    from markupsafe import Markup

Anchor = Literal["start", "middle", "end"]
Shape = Literal["circle", "diamond"]

FORMATS = (".svg", ".png")
ZOOM = 2
"""Pixels of a PNG per unit of a drawing."""

FONT_SIZE = 13
"""Of the texts of a drawing, in its units."""
LETTER_WIDTH = 0.6 * FONT_SIZE
"""An average letter of a wide font."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line; ``style`` is a class of charts.css."""

    x1: float
    y1: float
    x2: float
    y2: float
    style: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A mark with a text that appears when a pointer rests on it."""

    x: float
    y: float
    title: str
    style: str
    shape: Shape = "circle"
    radius: float = 4


@dataclass(frozen=True, slots=True)
class Label:
    """A text; ``x`` is its start, its middle or its end, and ``y`` its base line."""

    x: float
    y: float
    text: str
    style: str = ""
    anchor: Anchor = "start"


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart laid out for one size; title and description are its text alternative."""

    width: int
    height: int
    title: str
    description: str
    lines: Sequence[Line]
    dots: Sequence[Dot]
    labels: Sequence[Label]

    def to_svg(self) -> str:
        """A file that stands alone, with the colours of a light page."""
        template = make_environment(ROOM, keep_trailing_newline=True).get_template("drawing.svg.jinja")
        return template.render(drawing=self, css=_read_light_styles(), font_size=FONT_SIZE)

    def save(self, path: Path) -> None:
        """Write an SVG or PNG file, by the ending of its name."""
        check_chart_file(path)
        svg = self.to_svg()
        with replaced_file(path) as file:
            if path.suffix.lower() == ".svg":
                file.write_text(svg, encoding="utf-8", newline="\n")
            else:
                file.write_bytes(_draw_pixels(svg))


@dataclass(frozen=True, slots=True)
class DrawnChart:
    """A chart on a page: for a wide screen and a narrow one, with a note below."""

    wide: Drawing
    narrow: Drawing
    note: str = ""


def check_chart_file(path: Path) -> None:
    """Refuse a name whose format cannot be written, before any work."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise InvalidOption(f"a chart is written as {' or '.join(FORMATS)}, not to {path.name}; rename the file")
    if ending == ".png":
        require("resvg_py", "charts", "an SVG chart needs nothing, but a PNG needs")


def _draw_pixels(svg: str) -> bytes:
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=ZOOM))


def _read_light_styles() -> Markup:
    """The rules for charts, with the colours of a light page in place of their names."""
    from markupsafe import Markup

    templates = resources.files(ROOM).joinpath("templates")
    page = templates.joinpath("page.css").read_text(encoding="utf-8")
    first_rule, _, _ = page.partition("}")
    colours = dict(re.findall(r"--([\w-]+): (#\w+);", first_rule))
    rules = templates.joinpath("charts.css").read_text(encoding="utf-8")
    css = re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], rules)
    return Markup(css)  # noqa: S704 - our own file


def measure_text(text: str) -> float:
    """The width of a text at most, in the units of a drawing."""
    return LETTER_WIDTH * len(text)
