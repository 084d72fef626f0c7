"""What a sentence mentions, rule by rule, and of the real captions."""

import pytest

from cxc_eccv.errors import DataError
from cxc_eccv.explain.mentions import find_mentions

COMMON = ["person.n.01", "dog.n.01", "cat.n.01", "fireplug.n.01", "hotdog.n.02", "mouse.n.04", "bicycle.n.01"]
COMMON += ["street_sign.n.01", "ball.n.01", "houseplant.n.01", "cellular_telephone.n.01"]
COMMON += ["motorcycle.n.01", "wineglass.n.01", "baseball_bat.n.01", "apple.n.01", "skateboard.n.01", "toilet.n.02"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog beside two CATS.", {"dog.n.01", "cat.n.01"}),  # any number, any case
        ("Fire hydrants, painted", {"fireplug.n.01"}),  # two words, by another word of the synset
        ("a fire-hydrant and a skate board", {"fireplug.n.01", "skateboard.n.01"}),  # other spellings
        ("a hot dog", {"hotdog.n.02"}),  # the longest noun: no dog
        ("puppies", {"dog.n.01"}),  # below a concept
        ("an animal", set()),  # above it
        ("a bat", set()),  # WordNet's most frequent bat flies
        ("a baseball bat", {"baseball_bat.n.01"}),
        ("two men and a woman", {"person.n.01"}),  # men is also a word for a work force
        ("people", {"person.n.01"}),
        ("her bike", {"person.n.01", "bicycle.n.01", "motorcycle.n.01"}),  # two senses, both in the vocabulary
        ("a mouse", {"mouse.n.04"}),  # the sense that the vocabulary has
        ("wine glasses", {"wineglass.n.01"}),
        ("a white delicious cake, and they have more", set()),  # nouns for persons and apples, but rarely
        ("stop signs and a potted plant", {"street_sign.n.01", "houseplant.n.01"}),  # as COCO calls them
        ("a cell phone, sports balls", {"cellular_telephone.n.01", "ball.n.01"}),
        ("a walk in has been made", set()),  # no nouns, though WordNet has has-beens and walk-ins
        ("the dog's bone", {"dog.n.01"}),
        ("", set()),
        ("12 !?", set()),
    ],
)
def test_what_a_sentence_mentions(wordnet, text, expected):
    assert find_mentions([text], COMMON) == [expected]


def test_a_word_with_several_senses_means_those_of_the_vocabulary(wordnet):
    """The images decide which of them it was; without any of them in the vocabulary, the first sense counts."""
    assert find_mentions(["a mouse"], ["mouse.n.01", "mouse.n.04"]) == [{"mouse.n.01", "mouse.n.04"}]
    assert find_mentions(["a mouse"], ["mouse.n.04", "rodent.n.01"]) == [{"mouse.n.04"}]
    assert find_mentions(["a mouse"], ["rodent.n.01"]) == [{"rodent.n.01"}]


def test_concepts_above_a_concept_are_mentioned_too(wordnet):
    assert find_mentions(["a puppy"], ["puppy.n.01", "dog.n.01", "animal.n.01", "plant.n.02"]) == [
        {"puppy.n.01", "dog.n.01", "animal.n.01"}
    ]


def test_a_synset_is_found_by_any_of_its_names(wordnet):
    assert find_mentions(["a dog"], ["canis_familiaris.n.01"]) == [{"canis_familiaris.n.01"}]


def test_an_unknown_synset_is_refused(wordnet):
    with pytest.raises(DataError, match=r"no synset 'dogg\.n\.01'"):
        find_mentions(["a dog"], ["dogg.n.01"])


def test_an_empty_vocabulary_is_never_mentioned(wordnet):
    assert find_mentions(["a dog", "a cat"], []) == [set(), set()]
