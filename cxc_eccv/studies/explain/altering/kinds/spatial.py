"""Kind ``spatial``: replace words of place by their opposites."""

from cxc_eccv.studies.explain.altering.sentences import Kind, Places, Sentence, substitute

PREPOSITIONS = {
    "above": ("below",),
    "behind": ("in front of",),
    "below": ("above",),
    "beneath": ("above", "on top of"),
    "beside": ("far from",),
    "down": ("up",),
    "far from": ("close to", "near"),
    "in front of": ("behind",),
    "inside": ("outside",),
    "into": ("out of",),
    "near": ("far from",),
    "next to": ("far from",),
    "on top of": ("below", "under"),
    "outside": ("inside",),
    "over": ("under",),
    "toward": ("away from",),
    "towards": ("away from",),
    "under": ("above", "on top of"),
    "underneath": ("above", "on top of"),
    "up": ("down",),
}
SIDES = {"left": "right", "right": "left"}

SUPPORTS = frozenset("bed bench chair couch counter countertop desk shelf sofa stool table".split())
"""Nouns for which *under* is the opposite of *on*: nobody rides under a bus."""

PARTED = frozenset("break cut divide make slice split tear turn".split())
"""Verbs after which *into* names a result: *cut into pieces*."""


def find(sentence: Sentence) -> Places:
    """The prepositions of place that have an object, and *left* and *right*."""
    places = []
    for place, word in enumerate(sentence.words):
        name = sentence.lower[place]
        if not sentence.stands_alone(place, place):
            continue
        if name in SIDES and word.tag in ("JJ", "NN"):
            places.append([substitute(sentence, place, SIDES[name])])
        elif name == "on" and any(
            sentence.words[child].lemma in SUPPORTS for child in sentence.children(place, "pobj")
        ):
            places.append([substitute(sentence, place, "under")])
        else:
            phrases = (" ".join(sentence.lower[place : place + length]) for length in (3, 2, 1))
            phrase = next((phrase for phrase in phrases if phrase in PREPOSITIONS), "")
            last = place + phrase.count(" ")
            if phrase and _is_of_place(sentence, place, last):
                places.append([substitute(sentence, place, other, last) for other in PREPOSITIONS[phrase]])
    return places


def _is_of_place(sentence: Sentence, first: int, last: int) -> bool:
    word, before, after = sentence.lower[first], sentence.before(first), sentence.after(last)
    if first == last and (sentence.words[first].tag != "IN" or not sentence.children(first, "pobj")):
        return False
    if after in ("", "of", "to") or (after[:1].isdigit()) or (word == "over" and sentence.words[last + 1].tag == "CD"):
        return False
    near = {sentence.words[first - 1].lemma, sentence.words[sentence.words[first].head].lemma}
    if word == "into" and not near.isdisjoint(PARTED):
        return False
    return before not in ("all", "far", "from", "half", "right", "straight", "up", "upside")


KIND = Kind(
    name="spatial",
    description="A word of place gives way to its opposite: *left* and *right*, *above* and *below*, *over* and "
    "*under*, *in front of* and *behind*, *inside* and *outside*, *next to* and *far from*, *up* and *down*, *into* "
    "and *out of*, *on* a piece of furniture and *under* it.",
    prepare=lambda data: find,
)
