"""Colours and sizes that captions give to concepts, and where the captions of another image say otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

__all__ = ["Difference", "Place", "find_differences"]

COLOURS = frozenset({"beige", "black", "blue", "brown", "gold", "gray", "green", "orange", "pink", "purple", "red"})
COLOURS |= {"silver", "tan", "white", "yellow"}
LARGE, SMALL = ("big", "enormous", "giant", "huge", "large"), ("little", "miniature", "small", "tiny")
VALUES = {name: ("colour", name) for name in sorted(COLOURS)} | {"grey": ("colour", "gray")}
VALUES |= dict.fromkeys(LARGE, ("size", "large")) | dict.fromkeys(SMALL, ("size", "small"))
"""Word to its attribute and the value that it gives; words of one value agree."""

ANY = "|".join(VALUES)
RUN = re.compile(rf"\b(?:(?:{ANY})(?:[-\s]+and[-\s]+|[\s,/-]+))*(?:{ANY})\s+$", re.IGNORECASE)
"""Attributes before a name, such as ``black and white`` before ``cat``."""

WORD = re.compile(ANY, re.IGNORECASE)

Place = tuple[int, int, AbstractSet[str]]
"""A mention, as :func:`cxc_eccv.studies.explain.mentions.locate_mentions` gives it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A colour or size that a text gives to a concept (``asked``), and no caption of an image does.

    ``told`` has the words of captions that give the concept another one, the shortest of each value, sorted.
    """

    asked: str
    told: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """An attribute that a sentence gives to a mentioned concept."""

    concepts: AbstractSet[str]
    attribute: str
    value: str
    words: str


def find_differences(
    text: str, places: Sequence[Place], captions: Iterable[tuple[str, Sequence[Place]]]
) -> list[Difference]:
    """Colours and sizes of a text that no caption of an image has.

    An attribute belongs to the concept whose name it stands right before. Another concept of the captions is the same
    one where one of the two is above the other, as a dog is above a puppy.

    Example:
        >>> square = {"square.n.01"}
        >>> captions = [("a red square", [(6, 12, square)]), ("a square", [(2, 8, square)])]
        >>> find_differences("one black square", [(10, 16, square)], captions)
        [Difference(asked='black square', told=('red square',))]
    """
    in_captions = [given for caption, mentions in captions for given in _find_attributes(caption, mentions)]
    differences = {}
    for asked in _find_attributes(text, places):
        same = [
            given
            for given in in_captions
            if given.attribute == asked.attribute
            and (given.concepts <= asked.concepts or asked.concepts <= given.concepts)
        ]
        if all(given.value != asked.value for given in same):
            by_value = {given.value: given.words for given in sorted(same, key=lambda given: -len(given.words))}
            differences[asked.words] = Difference(asked.words, tuple(sorted(by_value.values())))
    return list(differences.values())


def _find_attributes(text: str, places: Sequence[Place]) -> Iterator[Given]:
    for start, end, concepts in places:
        if run := RUN.search(text, 0, start):
            for word in WORD.findall(run[0]):
                attribute, value = VALUES[word.lower()]
                yield Given(frozenset(concepts), attribute, value, f"{word} {text[start:end]}".lower())
