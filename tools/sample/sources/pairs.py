"""The sample's SugarCrepe files: captions of images, each with a hard negative that is false of its image."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from sample.captions import Statement, phrase
from sample.collection import Picture, seeded
from sample.likeness import is_true
from sample.scenes import COLOURS, KINDS, OPPOSITE, Item, Scene
from sample.sources.karpathy import compact

__all__ = ["PARTS", "sugarcrepe_json"]

PARTS = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")

POOL, IMAGES, TWICE = 24, 16, 2
"""Images of all parts, of which one part takes some, a few of these with two items: as images do in the real files."""

LEFT_OUT = {"swap_obj": 3}
"""A number that no item has any more, as 108 of the real swap_obj."""


def sugarcrepe_json(pictures: list[Picture], part: str) -> bytes:
    """One part in the layout of its real file, with the defects of that: a number left out, blanks at some ends."""
    pool = seeded("sugarcrepe").sample([picture for picture in pictures if _has_two_kinds(picture)], POOL)
    rng = seeded(f"sugarcrepe {part}")
    chosen = rng.sample(pool, IMAGES)
    shown = [(picture, 0) for picture in chosen] + [(picture, 1) for picture in chosen[:TWICE]]
    items = [_item(part, picture, first, rng) for picture, first in shown]
    rng.shuffle(items)
    numbers = [number for number in range(len(items) + 1) if number != LEFT_OUT.get(part, len(items))]
    return compact(dict(zip(map(str, numbers), items, strict=True)))


def _has_two_kinds(picture: Picture) -> bool:
    return picture.folder == "val2014" and len({item.kind for item in picture.scene.items}) == 2


def _item(part: str, picture: Picture, first: int, rng: random.Random) -> dict[str, str]:
    scene = picture.scene
    items = scene.items[first], scene.items[1 - first]
    told = [replace(items[0], size=None), items[1] if part == "add_att" else replace(items[1], size=None)]
    caption = _describe(told, scene.relation(first, 1 - first))
    negative = _spoil(part, told, scene, first, rng)
    if not is_true(caption, scene) or is_true(negative, scene):
        raise ValueError(f"image {picture.image_id}: {caption.text!r} is false, or {negative.text!r} is true")
    return {
        "filename": f"{picture.image_id:012d}.jpg",
        "caption": caption.text + rng.choice(("", "", "", " ")),
        "negative_caption": negative.text,
    }


def _spoil(part: str, told: Sequence[Item], scene: Scene, first: int, rng: random.Random) -> Statement:
    one, other = told
    relation = scene.relation(first, 1 - first)
    kinds = [kind for kind in KINDS if kind not in {item.kind for item in scene.items}]
    colours = [colour for colour in COLOURS if colour not in {item.colour for item in scene.items}]
    kind, colour = rng.choice(kinds), rng.choice(colours)
    wrong_size = "large" if scene.items[first].size == "small" else "small"
    spoilt = {
        "replace_obj": lambda: _describe([replace(one, kind=kind), other], relation),
        "replace_att": lambda: _describe([replace(one, colour=colour), other], relation),
        "replace_rel": lambda: _describe(told, OPPOSITE[relation]),
        "swap_obj": lambda: _describe([replace(one, kind=other.kind), replace(other, kind=one.kind)], relation),
        "swap_att": lambda: _describe([replace(one, colour=other.colour), replace(other, colour=one.colour)], relation),
        "add_obj": lambda: _describe([*told, Item(kind, colour)], relation),
        "add_att": lambda: _describe([replace(one, size=wrong_size), other], relation),
    }
    return spoilt[part]()


def _describe(items: Sequence[Item], relation: str) -> Statement:
    text = f"{phrase(items[0])} {relation} {phrase(items[1])}" + "".join(f" and {phrase(item)}" for item in items[2:])
    return Statement(f"{text[0].upper()}{text[1:]}.", tuple(items), relation)
