"""What WordNet says of a word: its opposites, and its rarer names."""

from __future__ import annotations

from functools import cache

from cxc_eccv.sources.wordnet import load_wordnet

__all__ = ["antonyms_of", "rarer_synonyms_of"]

SENSES = 2
"""Antonyms are those of a word's most frequent senses, which WordNet lists first: of later ones, *green* would be the
opposite of *ripe*."""


@cache
def antonyms_of(lemma: str, part: str) -> tuple[str, ...]:
    """The antonyms of a word's most frequent senses that WordNet counts at least once, in alphabetical order.

    Args:
        lemma: in lower case.
        part: ``as`` for adjectives, ``v`` for verbs.

    Raises:
        SourceMissing: WordNet is not at hand.
    """
    wordnet = load_wordnet()
    found = {
        antonym.name().replace("_", " ")
        for letter in part
        for synset in wordnet.synsets(lemma, letter)[:SENSES]
        for own in synset.lemmas()
        if own.name().lower() == lemma
        for antonym in own.antonyms()
        if antonym.count() and antonym.name().islower()
    }
    # Of several words, those that end in a preposition take the place of one: "letting go of" that of "holding".
    return tuple(sorted(name for name in found - {lemma} if " " not in name or name.endswith(" of")))


@cache
def rarer_synonyms_of(noun: str) -> tuple[str, ...]:
    """Single words that mean the same and are counted less often, though at least once, in alphabetical order.

    The noun must mostly be used in its first sense, by WordNet's counts, and this must be the first sense of the
    synonym as well: else a *picture* would be an *icon*.

    Raises:
        SourceMissing: WordNet is not at hand.
    """
    wordnet = load_wordnet()
    counts = [_count(synset, noun) for synset in wordnet.synsets(noun, "n")]
    if not counts or 2 * counts[0] <= sum(counts):
        return ()
    meant = wordnet.synsets(noun, "n")[0]
    found = {
        other.name()
        for other in meant.lemmas()
        if other.name().isalpha()
        and other.name().islower()
        and len(other.name()) > 2  # "m", "lb"
        and not other.name().endswith("s")  # "whiskers" is a plural already
        and 0 < other.count() < counts[0]
        and wordnet.synsets(other.name(), "n")[0] == meant
    }
    return tuple(sorted(found - {noun}))


def _count(synset: object, noun: str) -> int:
    return sum(own.count() for own in synset.lemmas() if own.name().lower() == noun)  # type: ignore[attr-defined]
