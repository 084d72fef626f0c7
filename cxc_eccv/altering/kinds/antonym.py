"""Kind ``antonym``: an adjective gives way to its opposite."""

from cxc_eccv.altering.english import compare_adjective
from cxc_eccv.altering.kind import Kind, Places, substitute
from cxc_eccv.altering.lexicon import antonyms_of
from cxc_eccv.altering.sentences import Sentence

LEFT_ALONE = frozenset(
    "concrete different few first last left more most much other overhead own past present right same side such "
    "top".split()
)
"""Sides are the business of ``spatial``; the others point at things or count them, or mean a material or a place in
captions where WordNet's opposite is of another sense."""

OPPOSITE_IN_NAME_ONLY = frozenset({"much", "shut"})
"""Antonyms that no noun takes, or fewer than another one: a little dog is no *much dog*, an open field not *shut*."""

FIXED = {
    "close": frozenset({"by", "to", "together", "up"}),
    "compact": frozenset({"disc", "discs", "disk", "disks"}),
    "hard": frozenset({"to"}),
    "hot": frozenset({"dog", "dogs"}),
    "smart": frozenset({"phone", "phones"}),
}
"""Adjectives to the words before which they have no opposite."""

LIVING = frozenset(
    "adult animal bear boy cat child couple cow dog elephant giraffe girl guy horse kid lady man person player sheep "
    "woman zebra".split()
)
"""Of these *young* is the opposite of *old*, of everything else *new*."""


def find(sentence: Sentence) -> Places:
    """Every adjective that has an antonym in WordNet, in the same degree of comparison."""
    places = []
    for place, word in enumerate(sentence.words):
        if word.tag not in ("JJ", "JJR", "JJS") or word.lemma in LEFT_ALONE or not sentence.stands_alone(place, place):
            continue
        if sentence.after(place) in FIXED.get(word.lemma, ()):
            continue
        excluded = OPPOSITE_IN_NAME_ONLY | {"new" if sentence.words[word.head].lemma in LIVING else "young"}
        antonyms = (antonym for antonym in antonyms_of(word.lemma, "as") if antonym not in excluded)
        forms = [compare_adjective(antonym, word.tag) for antonym in antonyms]
        # Where the opposite is in the sentence already, as in "black and white", none is left.
        changes = [substitute(sentence, place, form) for form in forms if form and form not in sentence.lower]
        if changes:
            places.append(changes)
    return places


KIND = Kind(
    name="antonym",
    title="Antonym",
    description="An adjective gives way to an antonym that WordNet has for one of its two most frequent senses: "
    "*an old bus* is *a new bus*.",
    prepare=lambda data: find,
)
