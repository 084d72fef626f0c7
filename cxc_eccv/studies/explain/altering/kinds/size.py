"""Kind ``size``: replace large by small and the other way round."""

from cxc_eccv.studies.explain.altering.sentences import Kind, Places, Sentence, substitute

LARGE, SMALL = ("big", "enormous", "huge", "large"), ("little", "minor", "small", "tiny")
OPPOSITES = {
    **dict.fromkeys(LARGE, SMALL),
    **dict.fromkeys(SMALL, LARGE),
    **dict.fromkeys(("bigger", "larger"), ("smaller", "tinier")),
    **dict.fromkeys(("smaller", "tinier"), ("bigger", "larger")),
    **dict.fromkeys(("biggest", "largest"), ("smallest", "tiniest")),
    **dict.fromkeys(("smallest", "tiniest"), ("biggest", "largest")),
}
NOT_OF_SIZE = frozenset({"apple", "bat", "ben", "bird", "bit", "league", "mac", "more", "rig", "too", "top", "wheel"})
"""Words before which *big* or *little* is part of a name or no adjective: Big Ben, little league, a little bit."""


def find(sentence: Sentence) -> Places:
    """The adjectives of size."""
    return [
        [substitute(sentence, place, opposite) for opposite in OPPOSITES[sentence.lower[place]]]
        for place, word in enumerate(sentence.words)
        if word.tag in ("JJ", "JJR", "JJS")
        and sentence.lower[place] in OPPOSITES
        and sentence.after(place) not in NOT_OF_SIZE
        and sentence.stands_alone(place, place)
    ]


KIND = Kind(
    name="size",
    description="*Large*, *big*, *enormous* or *huge* gives way to *small*, *little*, *minor* or *tiny*, and the "
    "other way round; comparatives to comparatives.",
    prepare=lambda data: find,
)
