"""Scenes to pictures: outlines of the shapes, antialiased drawing, JPEG bytes."""

from __future__ import annotations

import io
import math

from PIL import Image, ImageDraw

from sample.scenes import BACKGROUNDS, COLOURS, SIDE, Item, Scene

__all__ = ["jpeg_bytes", "outline", "picture"]

SCALE = 4
"""Pictures are drawn this much larger and averaged down, which smooths every edge."""

RADIUS = {"large": 13.0, "small": 8.0}
JPEG_QUALITY = 60

Point = tuple[float, float]


def _regular(corners: int, start: float, *radii: float) -> list[Point]:
    """Corners on rings of the given radii in turn, clockwise from the angle ``start`` in degrees."""
    angles = [math.radians(start + 360 * corner / corners) for corner in range(corners)]
    return [
        (radii[number % len(radii)] * math.cos(angle), radii[number % len(radii)] * math.sin(angle))
        for number, angle in enumerate(angles)
    ]


def _heart(corners: int) -> list[Point]:
    angles = [2 * math.pi * corner / corners for corner in range(corners)]
    return [
        (
            math.sin(t) ** 3,
            -(13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)) / 16 - 0.1,
        )
        for t in angles
    ]


def _cross(arm: float) -> list[Point]:
    corner = [(1.0, -arm), (1.0, arm), (arm, arm), (arm, 1.0)]
    quarter_turns = [[(-y, x) for x, y in corner], [(-x, -y) for x, y in corner], [(y, -x) for x, y in corner]]
    return corner + [point for quarter in quarter_turns for point in quarter]


def outline(item: Item, centre: tuple[int, int], *, round_corners: int = 12) -> list[Point]:
    """Corners of an item in pixels of the picture."""
    shapes = {
        "circle": _regular(round_corners, 0, 1.0),
        "square": _regular(4, 45, 1.22),
        "triangle": [(x, y + 0.2) for x, y in _regular(3, -90, 1.2)],
        "star": [(x, y + 0.05) for x, y in _regular(10, -90, 1.2, 0.52)],
        "heart": _heart(round_corners),
        "cross": _cross(0.36),
    }
    radius = RADIUS[str(item.size)]
    return [(centre[0] + radius * x, centre[1] + radius * y) for x, y in shapes[str(item.kind)]]


def picture(scene: Scene) -> Image.Image:
    """The scene as an RGB image of 64 x 64 pixels."""
    image = Image.new("RGB", (SIDE * SCALE, SIDE * SCALE), BACKGROUNDS[scene.background])
    pen = ImageDraw.Draw(image)
    for item, centre in zip(scene.items, scene.centres, strict=True):
        corners = outline(item, centre, round_corners=72)
        pen.polygon([(x * SCALE, y * SCALE) for x, y in corners], fill=COLOURS[str(item.colour)])
    return image.reduce(SCALE)


def jpeg_bytes(image: Image.Image) -> bytes:
    """The picture as the bytes of a JPEG file, about 1 kB."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return buffer.getvalue()
