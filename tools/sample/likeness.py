"""How alike two scenes or captions are, and whether a caption is true of a scene."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations
from typing import Protocol

from sample.captions import Statement
from sample.scenes import Item, Scene

__all__ = ["Account", "is_true", "likeness", "rating"]

WEIGHTS = {"kind": 0.45, "colour": 0.4, "size": 0.15}
RELATION_WEIGHT = 0.2
BACKGROUND_WEIGHT = 0.1
STEEPNESS = 2
NOISE = 0.35


class Account(Protocol):
    """What scenes and captions have in common."""

    @property
    def items(self) -> tuple[Item, ...]:
        """Shapes, with None for what is left open."""

    @property
    def background(self) -> str | None:
        """Name of the background, or None."""

    def relation(self, one: int, other: int) -> str | None:
        """Where item ``one`` stands as seen from item ``other``."""


def is_true(statement: Statement, scene: Scene) -> bool:
    """Whether the scene has everything that the caption claims.

    Example:
        >>> scene = Scene((Item("star", "red", "small"), Item("cross", "blue", "large")), ((17, 32), (47, 32)), "mint")
        >>> is_true(Statement("a cross right of a star", (Item("cross"), Item("star")), "right of"), scene)
        True
        >>> is_true(Statement("a blue star", (Item("star", "blue"),)), scene)
        False
    """
    if statement.is_empty != (not scene.items) or statement.background not in (None, scene.background):
        return False
    if len(statement.items) > len(scene.items):
        return False
    return not statement.items or likeness(statement, scene, silence=1.0) == 1.0


def likeness(one: Account, other: Account, *, silence: float) -> float:
    """Agreement in [0, 1] under the best assignment of items to items."""
    short, long = sorted((one, other), key=lambda account: len(account.items))
    if not short.items:
        return 1.0 if not long.items else 0.0
    choices = permutations(range(len(long.items)), len(short.items))
    return max(_agreement(short, long, choice, silence) for choice in choices)


def rating(value: float, rng: random.Random) -> float:
    """A likeness as the mean of annotators' ratings, 0 to 5 with two decimals."""
    noisy: float = 5 * value**STEEPNESS + rng.gauss(0, NOISE)
    return round(min(5.0, max(0.0, noisy)), 2)


def _agreement(short: Account, long: Account, choice: Sequence[int], silence: float) -> float:
    found = [_item_agreement(item, long.items[place], silence) for item, place in zip(short.items, choice, strict=True)]
    parts = [(sum(found) / len(found), 1.0)]
    if len(choice) > 1:
        relations = short.relation(0, 1), long.relation(choice[0], choice[1])
        if None not in relations:
            parts.append((float(relations[0] == relations[1]), RELATION_WEIGHT))
    if short.background is not None and long.background is not None:
        parts.append((float(short.background == long.background), BACKGROUND_WEIGHT))
    return round(sum(value * weight for value, weight in parts) / sum(weight for _, weight in parts), 9)


def _item_agreement(one: Item, other: Item, silence: float) -> float:
    total = 0.0
    for name, weight in WEIGHTS.items():
        values = getattr(one, name), getattr(other, name)
        total += weight * (silence if None in values and values != (None, None) else float(values[0] == values[1]))
    return total
