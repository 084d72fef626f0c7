"""Kind ``rare_synonym``: a noun gives way to a rarer word for the same, a control."""

from cxc_eccv.altering.english import plural_of
from cxc_eccv.altering.kind import Kind, Places, substitute
from cxc_eccv.altering.lexicon import rarer_synonyms_of
from cxc_eccv.altering.sentences import Sentence

LEFT_ALONE = frozenset(
    "close controller court food help leaf letter lid load nothing one pitcher plant play process range rest run "
    "someone state step talk theme vanity variety".split()
)
"""Nouns that in captions mostly mean something else than in WordNet's texts: a game controller is no accountant."""


def find(sentence: Sentence) -> Places:
    """Every noun that stands for itself, no part of a compound, and has a rarer synonym in WordNet."""
    places = []
    for place, word in enumerate(sentence.words):
        singular = word.tag == "NN" and word.lemma == sentence.lower[place]
        if not (singular or (word.tag == "NNS" and plural_of(word.lemma) == sentence.lower[place])):
            continue
        if word.role == "compound" or sentence.children(place, "compound") or not sentence.stands_alone(place, place):
            continue
        synonyms = () if word.lemma in LEFT_ALONE else rarer_synonyms_of(word.lemma)
        if synonyms:
            names = synonyms if singular else map(plural_of, synonyms)
            places.append([substitute(sentence, place, name) for name in names])
    return places


KIND = Kind(
    name="rare_synonym",
    title="Rare synonym",
    description="A noun gives way to a synonym that WordNet counts less often: *a sofa* is *a lounge*. A control: the "
    "meaning stays, and so should the rank.",
    prepare=lambda data: find,
    same_meaning=True,
)
