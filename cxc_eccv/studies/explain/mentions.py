"""Find the concepts that a sentence mentions, and their colours and sizes in it.

COCO's categories have a checked list of words; other concepts are found by WordNet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any

from cxc_eccv.sources.wordnet import find_synset, load_category_words, load_wordnet
from cxc_eccv.studies.explain.altering.english import plural_of
from cxc_eccv.studies.explain.concepts import synsets_of_categories

WORD = re.compile(r"[^\W\d_]+")
LONGEST = 3
"""The most words of a name: ``compact disc player``."""

Place = tuple[int, int, AbstractSet[str]]
"""A mention: its start and end in characters, and its concepts."""


def find_mentions(texts: Iterable[str], vocabulary: Collection[str]) -> list[set[str]]:
    """Concepts of the vocabulary that each sentence mentions.

    Words are read from left to right, the longest name first, in singular or plural: a ``hot dog`` is no dog.

    1. COCO's 80 categories have a list of words, checked on captions of images with known categories: ``kitten``
       mentions a cat, ``people`` and ``she`` a person, a ``bus stop`` no bus. No other words mention them.
    2. Of other concepts, a word mentions every one in the vocabulary that it names in WordNet: ``star`` is the figure
       if the vocabulary has only that sense, and also the celestial body if it has both.

    A sentence also mentions every concept above these: an ``oak`` is a tree, a ``tree`` is no oak. COCO's categories
    are never above each other: a ``hot dog`` is no sandwich, as in COCO's annotations.

    Args:
        texts: N sentences.
        vocabulary: WordNet synsets, such as ``dog.n.01``, that the images may show.

    Returns:
        N sets of synsets of the vocabulary.

    Raises:
        DataError: a synset is unknown, or WordNet is missing; says how to get it.
    """
    return [{name for _, _, concepts in places for name in concepts} for places in locate_mentions(texts, vocabulary)]


def locate_mentions(texts: Iterable[str], vocabulary: Collection[str]) -> list[list[Place]]:
    """The mentions of each sentence from left to right, as :func:`find_mentions` finds them."""
    reader = _Reader(vocabulary)
    return [reader.read(text) for text in texts]


@cache
def _synsets_of_phrases() -> Mapping[str, frozenset[str]]:
    """Every phrase of the checked list, in singular and plural, to the synsets of its categories, if any."""
    synsets = {name: {entry.synset} for name, entry in synsets_of_categories().items()}
    phrases: dict[str, frozenset[str]] = {}
    for category, words in load_category_words().items():
        for phrase in words:
            before, blank, last = phrase.rpartition(" ")
            for form in (phrase, before + blank + plural_of(last)):
                phrases[form] = phrases.get(form, frozenset()) | synsets.get(category, set())
    return phrases


class _Reader:
    """Finds mentions, and looks up each phrase once."""

    def __init__(self, vocabulary: Collection[str]) -> None:
        self.corpus = load_wordnet()
        self.names: dict[str, set[str]] = {}
        """Synset to its names in the vocabulary: a synset has a name for each of its words."""
        for name in vocabulary:
            self.names.setdefault(find_synset(name).name(), set()).add(name)
        self.parts_of_speech = sorted({name.split(".")[-2] for name in self.names})
        self.listed = _synsets_of_phrases()
        self.unlisted = self.names.keys() - frozenset().union(*self.listed.values())
        self.look_up = cache(self._look_up)

    def read(self, text: str) -> list[Place]:
        words, mentions, start = list(WORD.finditer(text)), list[Place](), 0
        while start < len(words):
            for length in range(min(LONGEST, len(words) - start), 0, -1):
                phrase = words[start : start + length]
                concepts = self.look_up(*(word[0].lower() for word in phrase))
                if concepts is not None:
                    break
            if concepts:
                mentions.append((phrase[0].start(), phrase[-1].end(), concepts))
            start += length
        return mentions

    def _look_up(self, *words: str) -> frozenset[str] | None:
        """Concepts that a phrase mentions; None if it is no name."""
        synsets = self.listed.get(" ".join(words))
        spellings = dict.fromkeys(mark.join(words) for mark in ("_", "-", ""))  # fire_hydrant, t-shirt, wineglass
        every = [sense for spelling in spellings for sense in self.corpus.synsets(spelling, self.parts_of_speech)]
        senses = [sense for sense in every if sense.name() in self.unlisted]
        if synsets is None and not senses:
            return None
        # WordNet puts a hot dog below sandwich and a doughnut below cake, unlike COCO's annotators.
        above = self._go_up(map(self.corpus.synset, synsets or ())) & self.unlisted
        meant = {*self._go_up(senses), *above, *(synsets or ())}
        return frozenset(name for synset in meant & self.names.keys() for name in self.names[synset])

    def _go_up(self, senses: Iterable[Any]) -> set[str]:
        """These senses and the synsets above them."""
        return {ancestor.name() for sense in senses for ancestor, _ in sense.hypernym_distances()}


COLOURS = frozenset({"beige", "black", "blue", "brown", "gold", "gray", "green", "orange", "pink", "purple", "red"})
COLOURS |= {"silver", "tan", "white", "yellow"}
LARGE, SMALL = ("big", "enormous", "giant", "huge", "large"), ("little", "miniature", "small", "tiny")
VALUES = {name: ("colour", name) for name in sorted(COLOURS)} | {"grey": ("colour", "gray")}
VALUES |= dict.fromkeys(LARGE, ("size", "large")) | dict.fromkeys(SMALL, ("size", "small"))
"""Word to its attribute and value; words of the same value agree."""

ANY_VALUE = "|".join(VALUES)
VALUE = re.compile(ANY_VALUE, re.IGNORECASE)
VALUES_BEFORE_NAME = re.compile(
    rf"\b(?:(?:{ANY_VALUE})(?:[-\s]+and[-\s]+|[\s,/-]+))*(?:{ANY_VALUE})\s+$", re.IGNORECASE
)
"""Attributes before a name, such as ``black and white`` before ``cat``."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A colour or size of a concept in a text (``asked``) that no caption of an image has.

    ``others`` has the words of captions with other values of the concept, the shortest of each value, sorted.
    """

    asked: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Attribute:
    concepts: AbstractSet[str]
    name: str
    value: str
    words: str


def find_differences(
    text: str, places: Sequence[Place], captions: Iterable[tuple[str, Sequence[Place]]]
) -> list[Difference]:
    """Colours and sizes of a text that no caption of an image has.

    An attribute belongs to the concept that it directly precedes. Two concepts count as the same if one is above the
    other, as a dog is above a puppy.
    """
    in_captions = [attribute for caption, mentions in captions for attribute in _find_attributes(caption, mentions)]
    differences = {}
    for asked in _find_attributes(text, places):
        same = [
            other
            for other in in_captions
            if other.name == asked.name and (other.concepts <= asked.concepts or asked.concepts <= other.concepts)
        ]
        if all(other.value != asked.value for other in same):
            by_value = {other.value: other.words for other in sorted(same, key=lambda other: -len(other.words))}
            differences[asked.words] = Difference(asked.words, tuple(sorted(by_value.values())))
    return list(differences.values())


def _find_attributes(text: str, places: Sequence[Place]) -> Iterator[_Attribute]:
    for start, end, concepts in places:
        if run := VALUES_BEFORE_NAME.search(text, 0, start):
            for word in VALUE.findall(run[0]):
                yield _Attribute(concepts, *VALUES[word.lower()], f"{word} {text[start:end]}".lower())
