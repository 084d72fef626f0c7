"""Concepts that a sentence mentions, by WordNet."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

from cxc_eccv.explain.concepts import synsets_of_categories
from cxc_eccv.explain.wordnet import find_synset, load_wordnet

__all__ = ["PERSONS", "find_mentions"]

PERSONS = frozenset({"people", "folk", "folks", "crowd", "someone", "somebody", "everyone", "everybody", "he", "him"})
PERSONS |= {"his", "himself", "she", "her", "hers", "herself"}
"""Words for persons whose nouns WordNet has elsewhere, as groups, or not at all."""

WORD = re.compile(r"[^\W\d_]+")
LONGEST = 3
"""Words of one name, at most: ``compact disc player``."""


def find_mentions(texts: Iterable[str], vocabulary: Collection[str]) -> list[set[str]]:
    """Concepts of the vocabulary that each sentence mentions.

    Words are read from left to right, the longest noun that WordNet knows first, in any number: a ``hot dog`` is no
    dog, and ``fire hydrants`` are a fire hydrant. What a noun means is one of its senses or several:

    1. Those senses that are in the vocabulary, whichever they are: ``mouse`` is the computer's where the vocabulary has
       that one alone, and both where it has both, so that the images decide. COCO's own names of its categories are
       names of their synsets as well: ``stop sign``.
    2. If none is, its first sense, the most frequent one; of ``men`` that of ``man`` as well. A word that is another
       part of speech more often than a noun in the texts that WordNet counted has none: ``white`` is no person.

    It mentions these, and every concept above them: a ``puppy`` is a dog, a ``woman`` a person; a ``dog`` is no puppy.
    Words for persons that are no such nouns (``people``, ``she``) mention a person.

    Args:
        texts: N sentences.
        vocabulary: WordNet synsets, such as ``dog.n.01``: all that the images may show, not those of one image.

    Returns:
        N sets of synsets of the vocabulary.

    Raises:
        DataError: WordNet has no such synset, or is missing; says how to get it.
    """
    reader = _Reader(vocabulary)
    return [reader.read(text) for text in texts]


class _Reader:
    """Looks words up, each once."""

    def __init__(self, vocabulary: Collection[str]) -> None:
        self.corpus = load_wordnet()
        self.names: dict[str, set[str]] = {}
        """Synset to what the vocabulary calls it, as a synset has a name for each of its words."""
        self.categories = {name.replace(" ", "_"): entry.synset for name, entry in synsets_of_categories().items()}
        for name in vocabulary:
            self.names.setdefault(find_synset(name).name(), set()).add(name)
        self.parts = sorted({name.split(".")[-2] for name in self.names})
        """Of speech."""
        self.look_up = cache(self._look_up)

    def read(self, text: str) -> set[str]:
        """Concepts that a sentence mentions."""
        words, found, start = [word.lower() for word in WORD.findall(text)], set[str](), 0
        while start < len(words):
            for length in range(min(LONGEST, len(words) - start), 0, -1):
                if (concepts := self.look_up(*words[start : start + length])) is not None:
                    found |= concepts
                    break
            start += length
        return found

    def _look_up(self, *words: str) -> frozenset[str] | None:
        """Concepts that a name mentions; None where it is none."""
        form = "_".join(words)
        spellings = dict.fromkeys([form, "-".join(words), "".join(words)])  # skate board, t-shirt
        every = [sense for spelling in spellings for sense in self.corpus.synsets(spelling, self.parts)]
        every += [self.corpus.synset(synset) for synset in self._categories(form)]
        if named := [sense for sense in every if sense.name() in self.names]:
            return self._go_up(named)
        if form in PERSONS:
            return self._go_up([self.corpus.synset("person.n.01")])
        nouns = self.corpus.synsets(form, "n")
        if not nouns:
            return None
        written = [sense for sense in nouns if form in map(str.lower, sense.lemma_names())]
        base = [sense for sense in nouns if sense not in written]
        found = self._go_up([*written[:1], *base[:1]])
        return found if found and self._is_mostly_noun(form) else frozenset()

    def _categories(self, form: str) -> set[str]:
        """Synsets of the category of this name, in the singular or the plural."""
        *first, last = form.split("_")
        singular = "_".join([*first, self.corpus.morphy(last, "n") or last])
        return {self.categories[name] for name in (form, singular) if name in self.categories}

    def _go_up(self, senses: list[Any]) -> frozenset[str]:
        """Concepts of the vocabulary that are these senses, or above them."""
        above = {ancestor.name() for sense in senses for ancestor, _ in sense.hypernym_distances()}
        return frozenset(name for synset in above & self.names.keys() for name in self.names[synset])

    def _is_mostly_noun(self, form: str) -> bool:
        """Whether WordNet counted it as no other part of speech more often than as a noun."""
        counts = {pos: self._count(form, pos) for pos in "nvar"}
        return counts["n"] == max(counts.values())

    def _count(self, form: str, pos: str) -> int:
        base = self.corpus.morphy(form, pos)
        return sum(lemma.count() for lemma in self.corpus.lemmas(base, pos)) if base else 0
