"""Kind ``verb_antonym``: a verb gives way to its opposite."""

from cxc_eccv.altering.english import inflect_verb
from cxc_eccv.altering.kind import Kind, Places, substitute
from cxc_eccv.altering.lexicon import antonyms_of
from cxc_eccv.altering.sentences import Sentence

ACTIVE = ("VB", "VBD", "VBG", "VBP", "VBZ")
"""Past participles are left alone: *filled with* has no opposite of the same grammar."""

LEFT_ALONE = frozenset("appear be do get have include leave let".split())


def find(sentence: Sentence) -> Places:
    """Every verb with an antonym in WordNet, in the same form; none with a particle, which changes what it means."""
    places = []
    for place, word in enumerate(sentence.words):
        if word.tag not in ACTIVE or word.role in ("amod", "aux", "auxpass") or word.lemma in LEFT_ALONE:
            continue
        if sentence.children(place, "prt") or not sentence.stands_alone(place, place):
            continue
        if sentence.before(place) == "blow" or (word.lemma == "hold" and sentence.after(place) in ("on", "onto", "up")):
            continue
        has_object = bool(sentence.children(place, "dobj"))
        antonyms = (antonym for antonym in antonyms_of(word.lemma, "v") if has_object or " " not in antonym)
        forms = [inflect_verb(antonym, word.tag) for antonym in antonyms]
        changes = [substitute(sentence, place, form) for form in forms if form]
        if changes:
            places.append(changes)
    return places


KIND = Kind(
    name="verb_antonym",
    title="Verb antonym",
    description="A verb gives way to an antonym that WordNet has for one of its two most frequent senses, in the same "
    "form: *a man sitting* is *a man standing*.",
    prepare=lambda data: find,
)
