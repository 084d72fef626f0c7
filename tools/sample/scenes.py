"""Scenes of two coloured shapes on a plain background, drawn by chance from a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

__all__ = ["BACKGROUNDS", "COLOURS", "KINDS", "OPPOSITE", "SIDE", "Item", "Scene", "empty_scene", "scene_families"]

SIDE = 64
"""Width and height of every picture in pixels."""

SIZES = ("large", "small")
KINDS = ("circle", "square", "triangle", "star", "heart", "cross")
COLOURS = {
    "red": (208, 52, 58),
    "orange": (242, 140, 40),
    "yellow": (248, 208, 56),
    "green": (62, 152, 84),
    "blue": (48, 108, 196),
    "purple": (126, 74, 164),
    "pink": (244, 150, 186),
    "black": (46, 48, 60),
}
BACKGROUNDS = {"cream": (250, 236, 196), "grey": (190, 192, 196), "mint": (172, 234, 206), "lilac": (214, 198, 244)}
OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}

Place = tuple[int, int]
LAYOUTS: dict[str, tuple[Place, Place]] = {"row": ((17, 32), (47, 32)), "column": ((32, 17), (32, 47))}
JITTER = {"row": (2, 9), "column": (9, 2)}
"""Pixels by which a centre is moved at most, across and down."""

CHANGES = (("colour",), ("kind",), ("colour", "kind"))
"""In what the second item of a variant differs from the family's."""


@dataclass(frozen=True, slots=True)
class Item:
    """One shape; None stands for what a caption leaves out."""

    kind: str | None = None
    colour: str | None = None
    size: str | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """What a picture shows: items, the centre of each in pixels, and a background."""

    items: tuple[Item, ...]
    centres: tuple[Place, ...]
    background: str

    def relation(self, one: int, other: int) -> str:
        """Where item ``one`` stands as seen from item ``other``: along the axis that parts them most.

        Example:
            >>> Scene((Item(), Item()), ((17, 30), (47, 35)), "cream").relation(0, 1)
            'left of'
        """
        across = self.centres[one][0] - self.centres[other][0]
        down = self.centres[one][1] - self.centres[other][1]
        if abs(across) > abs(down):
            return "left of" if across < 0 else "right of"
        return "above" if down < 0 else "below"


def empty_scene(background: str) -> Scene:
    """A background without any item."""
    return Scene((), (), background)


def scene_families(rng: random.Random, count: int, variants: int) -> Iterator[list[Scene]]:
    """Yield ``count`` families: a scene and ``variants`` of it whose second item has another colour, kind or both."""
    for _ in range(count):
        items = tuple(map(Item, rng.choices(KINDS, k=2), rng.sample(list(COLOURS), 2), rng.choices(SIZES, k=2)))
        layout = rng.choice(list(LAYOUTS))
        background = rng.choice(list(BACKGROUNDS))
        places = rng.sample(LAYOUTS[layout], 2)
        changes = [(), *rng.sample(CHANGES, variants)]
        yield [
            Scene((items[0], _changed(rng, items, change)), _shaken(rng, places, *JITTER[layout]), background)
            for change in changes
        ]


def _shaken(rng: random.Random, places: list[Place], across: int, down: int) -> tuple[Place, ...]:
    return tuple((x + rng.randint(-across, across), y + rng.randint(-down, down)) for x, y in places)


def _changed(rng: random.Random, items: tuple[Item, ...], change: tuple[str, ...]) -> Item:
    """The second item with another kind than its own, and another colour than both."""
    first, second = items
    kinds = [kind for kind in KINDS if kind != second.kind]
    colours = [colour for colour in COLOURS if colour not in (first.colour, second.colour)]
    return replace(
        second,
        kind=rng.choice(kinds) if "kind" in change else second.kind,
        colour=rng.choice(colours) if "colour" in change else second.colour,
    )
