"""Captions of a scene: texts together with what they claim, so that their truth can be decided."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from sample.scenes import OPPOSITE, Item, Scene

__all__ = ["Statement", "describe", "mistaken", "phrase", "sixth"]

SYNONYMS = {
    "left of": ("left of", "left of", "to the left of"),
    "right of": ("right of", "right of", "to the right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
    "large": ("large", "big"),
    "small": ("small", "tiny"),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """A caption and its claims: what it mentions, None for what it leaves out, and how two items stand."""

    text: str
    items: tuple[Item, ...]
    first_to_second: str | None = None
    background: str | None = None
    is_empty: bool = False

    def relation(self, one: int, other: int) -> str | None:
        """Where item ``one`` stands as seen from item ``other``; None where the caption does not say."""
        if self.first_to_second is None or {one, other} != {0, 1}:
            return None
        return self.first_to_second if one == 0 else OPPOSITE[self.first_to_second]


def describe(scene: Scene, rng: random.Random) -> list[Statement]:
    """Five true captions in an order drawn by chance: three of both items, two that leave much out."""
    if not scene.items:
        return _of_nothing(scene)
    templates = [_related, _inverted, _full, *rng.sample((_kinds, _colours, _grounded), 2)]
    statements = [template(scene, rng) for template in templates]
    rng.shuffle(statements)
    return statements


def sixth(scene: Scene) -> Statement:
    """The caption that a few images have beyond their five."""
    one = _without_size(scene.items[0])
    other = _without_size(scene.items[1])
    return Statement(f"{phrase(one)} next to {phrase(other)}", (one, other))


def mistaken(statement: Statement) -> Statement:
    """The same caption with the colours of its two items exchanged, as a careless annotator would."""
    one, other = statement.items[:2]
    marked = statement.text.replace(str(one.colour), "\0").replace(str(other.colour), str(one.colour))
    items = (replace(one, colour=other.colour), replace(other, colour=one.colour))
    return replace(statement, text=marked.replace("\0", str(other.colour)), items=items)


def _related(scene: Scene, rng: random.Random, first: int = 0, second: int = 1) -> Statement:
    one = _without_size(scene.items[first])
    other = _without_size(scene.items[second])
    relation = scene.relation(first, second)
    text = f"{phrase(one)} {rng.choice(SYNONYMS[relation])} {phrase(other)}"
    return Statement(_styled(text, rng), (one, other), relation)


def _inverted(scene: Scene, rng: random.Random) -> Statement:
    statement = _related(scene, rng, 1, 0)
    if rng.random() < 0.2:
        text = statement.text.rstrip(".")
        return replace(statement, text=f"There is {text[0].lower()}{text[1:]}.")
    return statement


def _full(scene: Scene, rng: random.Random) -> Statement:
    text = " and ".join(phrase(item, rng) for item in scene.items)
    return Statement(_styled(f"{text} on {scene.background}", rng), scene.items, None, scene.background)


def _kinds(scene: Scene, rng: random.Random) -> Statement:
    one, other = (Item(item.kind) for item in scene.items)
    text = f"{phrase(one)} and {'another' if one == other else phrase(other)}"
    return Statement(_styled(text, rng), (one, other))


def _colours(scene: Scene, rng: random.Random) -> Statement:
    items = tuple(Item(colour=item.colour) for item in scene.items)
    return Statement(_styled(f"one {items[0].colour} and one {items[1].colour} shape", rng), items)


def _grounded(scene: Scene, rng: random.Random) -> Statement:
    item = _without_size(scene.items[0])
    return Statement(_styled(f"{phrase(item)} on {scene.background}", rng), (item,), None, scene.background)


def _of_nothing(scene: Scene) -> list[Statement]:
    ground = scene.background
    texts = (
        f"an empty {ground} picture",
        "No shapes.",
        f"Nothing but {ground}.",
        f"plain {ground}",
        "An empty picture.",
    )
    return [Statement(text, (), None, ground if ground in text else None, is_empty=True) for text in texts]


def phrase(item: Item, rng: random.Random | None = None) -> str:
    """An item with its article; with a generator its size in one of several words."""
    size = rng.choice(SYNONYMS[item.size]) if rng and item.size else item.size
    words = " ".join(word for word in (size, item.colour, item.kind) if word)
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _without_size(item: Item) -> Item:
    return replace(item, size=None)


def _styled(text: str, rng: random.Random) -> str:
    # Annotators of COCO differ: some write sentences, some write phrases.
    return f"{text[0].upper()}{text[1:]}." if rng.random() < 0.4 else text
