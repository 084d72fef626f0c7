"""Scenes of two or three coloured shapes on a plain background, drawn by chance from a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

__all__ = ["BACKGROUNDS", "COLOURS", "KINDS", "OPPOSITE", "SIDE", "Item", "Scene", "empty_scene", "scene_families"]

SIDE = 64
"""Width and height of every picture in pixels."""

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
BACKGROUNDS = {"cream": (250, 242, 224), "grey": (216, 220, 226), "mint": (208, 236, 222), "lilac": (228, 218, 242)}
OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}

LAYOUTS = {
    "row": ((17, 32), (47, 32)),
    "column": ((32, 17), (32, 47)),
    "triangle": ((16, 18), (48, 18), (32, 47)),
}
JITTER = {"row": (2, 9), "column": (9, 2), "triangle": (1, 1)}
SHARE_OF_TRIANGLES = 0.1


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
    centres: tuple[tuple[int, int], ...]
    background: str

    def relation(self, one: int, other: int) -> str | None:
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
    """Yield ``count`` families: a scene and ``variants`` of it that differ from it in one respect each.

    Captions of one member are often true of its siblings, as they are in the real data.
    """
    for _ in range(count):
        layout = "triangle" if rng.random() < SHARE_OF_TRIANGLES else rng.choice(("row", "column"))
        items = tuple(_item(rng, kind) for kind in rng.sample(KINDS, len(LAYOUTS[layout])))
        base = _place(rng, items, layout, rng.choice(list(BACKGROUNDS)))
        yield [base, *(_variant(rng, base, layout, change) for change in rng.sample(CHANGES, variants))]


def _item(rng: random.Random, kind: str) -> Item:
    return Item(kind, rng.choice(list(COLOURS)), rng.choice(("large", "small")))


def _place(rng: random.Random, items: tuple[Item, ...], layout: str, background: str) -> Scene:
    across, down = JITTER[layout]
    centres = tuple((x + rng.randint(-across, across), y + rng.randint(-down, down)) for x, y in LAYOUTS[layout])
    return Scene(items, centres, background)


CHANGES = ("order", "size", "background", "colour", "kind")


def _variant(rng: random.Random, base: Scene, layout: str, change: str) -> Scene:
    items, background = list(base.items), base.background
    first = items[0]
    if change == "order":
        items.reverse()
    elif change == "size":
        items[0] = replace(first, size="small" if first.size == "large" else "large")
    elif change == "background":
        background = _other(rng, list(BACKGROUNDS), background)
    elif change == "colour":
        items[0] = replace(first, colour=_other(rng, list(COLOURS), first.colour))
    else:
        items[0] = replace(first, kind=rng.choice([kind for kind in KINDS if kind not in {i.kind for i in items}]))
    return _place(rng, tuple(items), layout, background)


def _other(rng: random.Random, values: list[str], present: str | None) -> str:
    return rng.choice([value for value in values if value != present])
